// Entries of the parts of tokenizer.json, and what is said of those that are missing or unknown. Pure.
#pragma once

#include <gpuactors/base/result.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llm::tokenizer {

/// More is no vocabulary that exists, as in config.json.
inline constexpr std::int64_t most_ids = std::int64_t{1} << 24;

/// A part with a type, such as a normalizer: an object, and how messages name it.
struct Part {
  const nlohmann::json* json = nullptr;
  std::string name;
  std::string type;
};

/// Returns the parts of an entry of the file: none for null, those of a "Sequence" in their order, otherwise one.
/// @param list the entry of a Sequence that has its parts.
/// @returns `invalid_argument` for what has no type.
gpuactors::Result<std::vector<Part>> read_parts(const nlohmann::json& file, const std::string& name, const char* list);

/// @returns `unsupported`, naming it, if the part has another entry than these and its type: what it would change is
///          not known.
gpuactors::Result<void> allow_only(const Part& part, std::initializer_list<std::string_view> names);

/// An entry of a part. @returns `invalid_argument` if it is missing (without `otherwise`) or of another type.
gpuactors::Result<std::string> read_text(const Part& part, const char* name);
gpuactors::Result<bool> read_flag(const Part& part, const char* name, std::optional<bool> otherwise = {});
gpuactors::Result<char32_t> read_character(const Part& part, const char* name);
gpuactors::Result<std::int64_t> read_count(const Part& part, const char* name);

/// An ID of a token. @returns `invalid_argument` for others than whole numbers from 0 to below most_ids.
gpuactors::Result<std::int32_t> read_id(const nlohmann::json& json, std::string_view name);

/// A failure for a part of a type that is not there.
gpuactors::Failure refuse_type(const Part& part, std::string_view known);

/// Text of a file in a message: not more of it than helps.
std::string quote(std::string_view text);

} // namespace llm::tokenizer
