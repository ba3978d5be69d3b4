// Divides a template into texts and the words of its tags, with the blanks and ends of lines that transformers leave
// out.
#pragma once

#include <apps/llm/chat/value.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace llm::chat {

struct Token {
  enum class Kind {
    data,
    output_begin,
    output_end,
    block_begin,
    block_end,
    name,
    text,
    number, // in `constant`
    sign,
    end
  };

  Kind kind = Kind::end;
  int line = 1;
  /// A name, a sign, or what is written.
  std::string text;
  Value constant;
};

/// An error that names the line.
[[nodiscard]] gpuactors::Failure refuse(int line, std::string_view what);

/// @param source is text. @returns the tokens, the last of which is an end; or an error that names the line.
Result<std::vector<Token>> divide(std::string_view source);

} // namespace llm::chat
