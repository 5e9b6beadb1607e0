#pragma once
// What paging costs: the same attention over the same keys and values, once with a sequence's pages
// one after the other in memory, once scattered over a pool of a gigabyte or of a few megabytes.

namespace quire {

/// For every tier, cache type, length, number of queries and page size a benchmark that measures
/// both in turns: the medians of a call and their ratio.
void register_paged_attention();

}  // namespace quire
