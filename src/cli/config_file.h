#pragma once
// Options of a subcommand in a TOML file. (CLI11 reads such files only for the whole program.)

#include <string>

#include "base/result.h"

namespace CLI {
class App;
}  // namespace CLI

namespace quire {

/// Takes the options that were not given otherwise from `file`: keys are their long names without
/// the dashes. A key that is no option of `app`, or a value that it does not take, is an error.
Status read_config(CLI::App& app, const std::string& file);

/// Such a file: what was given, and everything else as a comment.
std::string write_config(const CLI::App& app);

}  // namespace quire
