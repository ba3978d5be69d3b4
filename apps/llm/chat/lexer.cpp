// Texts, comments and tags, as Jinja divides them with trim_blocks and lstrip_blocks.
#include <apps/llm/chat/lexer.hpp>
#include <apps/llm/chat/literals.hpp>
#include <apps/llm/chat/text.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace llm::chat {

namespace {

using Word = Token::Kind;

bool is_name(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

class Lexer {
public:
  explicit Lexer(std::string_view source) : source_(source) {
    // nop
  }

  Result<std::vector<Token>> run() {
    while (at_ < source_.size())
      GPUACTORS_TRY(read_root());
    add(Word::end, "");
    return std::move(tokens_);
  }

private:
  [[nodiscard]] bool is_at(std::string_view text) const {
    return source_.substr(at_, text.size()) == text;
  }

  /// Moves on, and counts lines.
  void move_to(std::size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  Token& add(Word kind, std::string_view text) {
    return tokens_.emplace_back(Token{kind, line_, std::string{text}, {}});
  }

  void skip_blanks() {
    move_to(source_.size() - strip_left(source_.substr(at_)).size());
  }

  Result<void> read_root() {
    auto begin = at_;
    for (;; ++begin) {
      begin = source_.find('{', begin);
      if (begin == std::string_view::npos || begin + 1 == source_.size()) {
        add(Word::data, source_.substr(at_));
        move_to(source_.size());
        return {};
      }
      if (source_[begin + 1] == '{' || source_[begin + 1] == '%' || source_[begin + 1] == '#')
        break;
    }
    const char tag = source_[begin + 1];
    const char sign = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
    const auto text = keep(source_.substr(at_, begin - at_), tag, sign);
    if (!text.empty())
      add(Word::data, text);
    move_to(begin);
    const auto line = line_;
    if (tag != '#')
      add(tag == '{' ? Word::output_begin : Word::block_begin, "");
    move_to(begin + (sign == '-' || sign == '+' ? 3 : 2));
    if (tag == '#')
      return read_comment(line);
    return read_tag(line, tag == '%');
  }

  /// What is left of a text before a tag.
  [[nodiscard]] std::string_view keep(std::string_view text, char tag, char sign) const {
    if (sign == '-')
      return strip_right(text);
    if (sign == '+' || tag == '{')
      return text;
    const auto newline = text.rfind('\n');
    const auto begin = newline == std::string_view::npos ? 0 : newline + 1;
    if (begin == 0 && !starts_line_)
      return text;
    return strip_left(text.substr(begin)).empty() ? text.substr(0, begin) : text;
  }

  /// Moves behind the end of a tag, and what is left out after it.
  void end_tag(std::size_t end, bool is_stripped, bool is_trimmed) {
    const auto begin = at_;
    move_to(end);
    if (is_stripped)
      skip_blanks();
    else if (is_trimmed && at_ < source_.size() && source_[at_] == '\n')
      move_to(at_ + 1);
    starts_line_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  Result<void> read_comment(int line) {
    const auto end = source_.find("#}", at_);
    if (end == std::string_view::npos)
      return refuse(line, "a comment does not end");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    end_tag(end + 2, sign == '-', sign != '+');
    return {};
  }

  Result<void> read_tag(int line, bool is_block) {
    const std::string_view close = is_block ? "%}" : "}}";
    std::string open_brackets;
    for (;;) {
      if (at_ >= source_.size())
        return refuse(line, is_block ? "a tag {% does not end" : "a tag {{ does not end");
      const bool has_sign = is_at("-") || (is_block && is_at("+"));
      if (open_brackets.empty() && source_.substr(at_ + (has_sign ? 1 : 0), 2) == close) {
        const char sign = has_sign ? source_[at_] : '\0';
        add(is_block ? Word::block_end : Word::output_end, "");
        end_tag(at_ + (has_sign ? 3 : 2), sign == '-', is_block && sign == '\0');
        return {};
      }
      auto next = at_;
      if (is_blank(next_character(source_, next))) {
        skip_blanks();
        continue;
      }
      GPUACTORS_TRY(read_word(open_brackets));
    }
  }

  Result<void> read_word(std::string& open_brackets) {
    const char c = source_[at_];
    if (c >= '0' && c <= '9') {
      GPUACTORS_LET(number, read_number(source_, at_, line_));
      add(Word::number, source_.substr(at_, number.size)).constant = number.value;
      move_to(at_ + number.size);
      return {};
    }
    if (is_name(c)) {
      auto end = at_;
      while (end < source_.size() && is_name(source_[end]))
        ++end;
      add(Word::name, source_.substr(at_, end - at_));
      move_to(end);
      return {};
    }
    if (c == '\'' || c == '"') {
      GPUACTORS_LET(text, read_text(source_, at_, line_));
      add(Word::text, text.value);
      move_to(at_ + text.size);
      return {};
    }
    return read_sign(open_brackets);
  }

  Result<void> read_sign(std::string& open_brackets) {
    constexpr std::string_view longer[] = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view shorter = "+-/*%~[](){}><=.:|,;";
    auto sign = source_.substr(at_, 1);
    for (const auto one : longer)
      if (is_at(one))
        sign = one;
    if (sign.size() == 1 && shorter.find(sign[0]) == std::string_view::npos) {
      auto end = at_;
      next_character(source_, end);
      return refuse(line_, fmt::format("the character {} is none of a tag's", source_.substr(at_, end - at_)));
    }
    if (const auto opening = std::string_view{"([{"}.find(sign); opening != std::string_view::npos)
      open_brackets += ")]}"[opening];
    if (sign == ")" || sign == "]" || sign == "}") {
      if (open_brackets.empty() || open_brackets.back() != sign[0])
        return refuse(line_, fmt::format("the bracket {} closes nothing", sign));
      open_brackets.pop_back();
    }
    add(Word::sign, sign);
    move_to(at_ + sign.size());
    return {};
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  /// Whether what was left out after the tag before ends a line.
  bool starts_line_ = true;
  std::vector<Token> tokens_;
};

/// Every line ends with \n, and the end of the last line is left out.
std::string with_plain_lines(std::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n')
      continue;
    result += source[i] == '\r' ? '\n' : source[i];
  }
  if (!result.empty() && result.back() == '\n')
    result.pop_back();
  return result;
}

} // namespace

gpuactors::Failure refuse(int line, std::string_view what) {
  return unknown(fmt::format("the chat template is not one that this program can render: line {}: {}", line, what));
}

Result<std::vector<Token>> divide(std::string_view source) {
  const auto plain = with_plain_lines(source);
  return Lexer{plain}.run();
}

} // namespace llm::chat
