// What a program says about arguments that it could not parse.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>

namespace gpuactors::cli {

/// Puts a text on one line: texts of user code and of the parser may have several. Pure.
[[nodiscard]] std::string one_line(std::string_view text);

/// The program, or its innermost subcommand that the arguments name, as a user types it: "gpuactors certs issue".
[[nodiscard]] std::string chosen_name(const CLI::App& program);

/// Explains in one line why the arguments could not be parsed, with the option or subcommand that was probably meant,
/// or where to read what there is.
[[nodiscard]] std::string explain(const CLI::App& program, const CLI::ParseError& error);

} // namespace gpuactors::cli
