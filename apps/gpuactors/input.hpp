// Reads the input of subcommands: numbers, times, NAME=VALUE pairs, and documents from an argument, a file or standard
// input.
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors::cli {

/// Reads all of `text` as a number; "nan" and "inf" are numbers, which the rules for shares then refuse.
/// @returns `invalid_argument`, naming `what`.
Result<double> parse_number(const std::string& what, const std::string& text);

/// Reads all of `text` as a whole number from `least` to `most`.
/// @returns `invalid_argument`, naming `what` and the range.
Result<std::int64_t> parse_integer(const std::string& what, const std::string& text, std::int64_t least,
                                   std::int64_t most);

/// Reads a number of times, or "always", which is -1; 0 if left out.
/// @returns `invalid_argument`, naming `what` and what is allowed.
Result<int> parse_times(const std::string& what, const std::optional<std::string>& text);

/// Reads a number of seconds above 0, up to a year.
/// @returns `invalid_argument`, naming `what` and the range.
Result<Duration> parse_seconds(const std::string& what, const std::string& text);

/// Splits each "NAME=VALUE".
/// @returns `invalid_argument`, naming `what`, without "=", with an empty name, or for a name that comes twice.
Result<std::map<std::string, std::string>> parse_pairs(const std::string& what, const std::vector<std::string>& pairs);

/// Reads quotas of owners, each "OWNER=DEVICES".
/// @returns `invalid_argument` as `parse_pairs`, or for what is no share of devices.
Result<std::map<std::string, double>> parse_quotas(const std::string& what, const std::vector<std::string>& pairs);

/// Opens the file `path`, or standard input for "-", to be read piece by piece.
/// @returns `invalid_argument` with the reason if it cannot be read.
Result<std::shared_ptr<std::istream>> open_document(const std::string& path);

/// Returns the contents of the file `path`, or of standard input for "-".
/// @returns `invalid_argument` with the reason if it cannot be read.
Result<std::string> read_document(const std::string& path);

/// How the help names an argument that `read_message` reads.
inline constexpr auto message_argument = "JSON|@FILE|-";

/// Reads a message of type `message` from an argument: JSON, @FILE to read it from a file, - from standard input, and
/// an empty message for an empty argument.
/// @returns `invalid_argument`, with the place, if the text is no such message.
Result<Payload> read_message(const DescribedTypes& types, const std::string& message, const std::string& argument);

} // namespace gpuactors::cli
