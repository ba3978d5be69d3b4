// Reading JSON that others wrote. Pure.
#pragma once

#include <gpuactors/base/result.hpp>

#include <nlohmann/json.hpp>

#include <string_view>

namespace llm {

/// A file's JSON, if it is an object. It is not nested deeper than any real one: copies of what is, and what is said of
/// it, would need a stack of their depth.
/// @returns `invalid_argument`, naming the file, for what is no object, or nested more than 32 deep.
gpuactors::Result<nlohmann::json> parse_object(std::string_view text, std::string_view file);

/// The same, with its keys in the order of the text; no object has more than 512 of them.
gpuactors::Result<nlohmann::ordered_json> parse_ordered_object(std::string_view text, std::string_view file);

} // namespace llm
