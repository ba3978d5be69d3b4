// Prints JSON for subcommands.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <iosfwd>

namespace gpuactors::cli {

using Json = nlohmann::ordered_json;

/// Writes a document for people and programs alike, and ends the line. Bytes that are not UTF-8 are replaced.
void print_json(std::ostream& out, const Json& document);

/// Returns a 64-bit number, of bytes or an id, as a string: such numbers do not survive all readers of JSON, and the
/// program's messages have them as strings, too.
[[nodiscard]] Json json_of(std::uint64_t number);

/// Returns the time that is this many seconds after the beginning of 1970, as `utc_for_programs` does; null for 0,
/// which says that there is none.
[[nodiscard]] Json json_of_time(std::int64_t unix_s);

} // namespace gpuactors::cli
