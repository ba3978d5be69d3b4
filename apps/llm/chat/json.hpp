// Values from JSON.
#pragma once

#include <apps/llm/chat/value.hpp>

#include <nlohmann/json_fwd.hpp>

namespace llm::chat {

/// @returns an error for texts that are not UTF-8, whole numbers of more than 64 bits, numbers that are not finite, and
/// too many lists and objects in each other.
Result<Value> from_json(Budget& budget, const nlohmann::json& json);
Result<Value> from_json(Budget& budget, const nlohmann::ordered_json& json);

} // namespace llm::chat
