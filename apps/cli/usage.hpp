// What a program says about arguments that it could not parse.
#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace gpuactors::cli {

/// Puts a text on one line: texts of user code and of the parser may have several. Pure.
[[nodiscard]] std::string one_line(std::string_view text);

/// Puts the options of `parser` from the `first` on under a heading of its help, each with its kind of value and its
/// default. The bounds that the parser checks are said where they are not kept.
void put_under(const std::string& heading, CLI::App& parser, std::size_t first);

/// The program, or its innermost subcommand that the arguments name, as a user types it: "gpuactors certs issue".
[[nodiscard]] std::string chosen_name(const CLI::App& program);

/// Explains in one line why the arguments could not be parsed, with the option or subcommand that was probably meant,
/// or where to read what there is.
[[nodiscard]] std::string explain(const CLI::App& program, const CLI::ParseError& error);

} // namespace gpuactors::cli
