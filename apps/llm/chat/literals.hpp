// Numbers and texts as templates write them.
#pragma once

#include <apps/llm/chat/value.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace llm::chat {

struct NumberLiteral {
  Value value;
  /// Bytes that it is written with.
  std::size_t size = 0;
};

struct TextLiteral {
  std::string value;
  std::size_t size = 0;
};

/// Reads the number that begins with the digit at `at`. @returns an error that names the line.
Result<NumberLiteral> read_number(std::string_view source, std::size_t at, int line);

/// Reads the text that begins with the quote at `at`. @returns an error that names the line.
Result<TextLiteral> read_text(std::string_view source, std::size_t at, int line);

} // namespace llm::chat
