// Begins: whether tokens are a text, or go on with one.
#pragma once

#include <cstdint>

namespace llm::tokenizer {

/// Files of Llama 1 and 2 and of Mistral put a space before each text, and leave it out of what they make of tokens. In
/// a continuation it is between two words.
enum class Begins : std::uint8_t { text, continuation };

} // namespace llm::tokenizer
