#include "model/model_input.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace quire {

std::optional<ModelInput> only_logit_rows(const ModelInput& input, LogitRowsStorage& storage) {
  const auto& wanted = input.logit_rows;
  const bool ascending = std::ranges::adjacent_find(wanted, std::greater_equal()) == wanted.end();
  if (!ascending || wanted.size() == input.tokens.size()) return {};
  storage.sequences.clear();
  storage.tables.clear();
  storage.rows.resize(wanted.size());
  std::iota(storage.rows.begin(), storage.rows.end(), std::size_t{0});
  const std::size_t n_layers = input.tables.size() / input.sequences.size();
  std::size_t i = 0;
  for (std::size_t s = 0; s < input.sequences.size(); ++s) {
    const SequenceSlice& slice = input.sequences[s];
    const std::size_t end = slice.first_row + slice.n_tokens;
    while (i < wanted.size() && wanted[i] < end) {
      const std::size_t first = i++;
      while (i < wanted.size() && wanted[i] < end && wanted[i] == wanted[i - 1] + 1) ++i;
      storage.sequences.push_back({.first_row = first,
                                   .n_tokens = i - first,
                                   .position = slice.position + wanted[first] - slice.first_row});
      const auto tables = input.tables.subspan(s * n_layers, n_layers);
      storage.tables.insert(storage.tables.end(), tables.begin(), tables.end());
    }
  }
  return ModelInput{.tokens = input.tokens.first(wanted.size()),
                    .sequences = storage.sequences,
                    .tables = storage.tables,
                    .logit_rows = storage.rows,
                    .output = input.output};
}

}  // namespace quire
