// A reader of regular expressions that writes them again, each character by its number: no syntax is left to chance.
#include <apps/llm/tokenizer/fields.hpp>
#include <apps/llm/tokenizer/regex_syntax.hpp>
#include <apps/llm/tokenizer/utf8.hpp>

#include <fmt/format.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace llm::tokenizer {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Failure;
using gpuactors::Result;

namespace {

/// What a quantifier may follow.
enum class Before { nothing, atom, look, quantifier };

struct Group {
  bool is_look = false;
  bool ignores_case = false;
  /// Whether an alternative that has ended can match nothing.
  bool can_be_empty = false;
  /// Whether all can match nothing that this alternative has before its last atom.
  bool is_empty_so_far = true;
};

/// An escape, or a character of a class.
struct Atom {
  /// Nothing for a class such as \s.
  std::optional<char32_t> code;
  std::string written;
};

class Reader {
public:
  explicit Reader(std::string_view expression) : in_(expression) {
    // nop
  }

  Result<std::string> read() {
    while (at_ < in_.size())
      GPUACTORS_TRY(read_one());
    if (groups_.size() > 1)
      return refuse("a group that does not end");
    return std::move(out_);
  }

private:
  [[nodiscard]] Failure refuse(std::string_view what) const {
    return fail(Errc::unsupported, fmt::format("the regular expression {} in tokenizer.json has {} at byte {}, which "
                                               "is not known here",
                                               quote(in_), what, at_));
  }

  [[nodiscard]] bool sees(std::string_view text) const {
    return in_.substr(at_).starts_with(text);
  }

  bool skip(std::string_view text) {
    if (!sees(text))
      return false;
    at_ += text.size();
    return true;
  }

  [[nodiscard]] bool ignores_case() const {
    return groups_.back().ignores_case;
  }

  Result<void> read_one() {
    const char next = in_[at_];
    if (next == '(')
      return open();
    if (next == ')')
      return close();
    if (next == '[')
      return read_class();
    if (next == '*' || next == '+' || next == '?' || next == '{')
      return read_quantifier();
    if (next == '|') {
      ++at_;
      out_ += '|';
      end_alternative();
      return {};
    }
    if (next == '^' || next == '$' || next == ']' || next == '}')
      return refuse(fmt::format("a {}", next));
    if (next == '.') {
      ++at_;
      return add({std::nullopt, "."});
    }
    GPUACTORS_LET(atom, read_atom());
    return add(atom);
  }

  void end_alternative() {
    auto& group = groups_.back();
    group.can_be_empty = group.can_be_empty || (group.is_empty_so_far && is_last_empty_);
    group.is_empty_so_far = true;
    is_last_empty_ = true;
    last_code_ = 0;
    before_ = Before::nothing;
  }

  /// Comes before each atom: of the one before it no more is asked.
  void end_atom() {
    groups_.back().is_empty_so_far = groups_.back().is_empty_so_far && is_last_empty_;
  }

  Result<void> add(const Atom& atom) {
    if (ignores_case()) {
      if (!atom.code || *atom.code >= 0x80)
        return refuse("what is no character of ASCII in a group that ignores case");
      // ß is the same as ss then, and one library sees that in more places than the other.
      const auto code = static_cast<char32_t>(static_cast<unsigned char>(*atom.code) | 0x20U);
      if ((last_code_ == U's' || last_code_ == U'f')
          && std::u32string_view{U"stfil"}.find(code) != std::u32string::npos)
        return refuse("letters that are one character in another case, in a group that ignores case");
      last_code_ = code;
    }
    end_atom();
    is_last_empty_ = false;
    out_ += atom.written;
    before_ = Before::atom;
    return {};
  }

  Result<void> open() {
    constexpr std::size_t deepest = 16;
    if (groups_.size() > deepest)
      return refuse("more than 16 groups in each other");
    Group group{false, ignores_case(), false, true};
    for (const char* kind : {"(?:", "(?>", "(?=", "(?!", "(?<=", "(?<!", "(?i:"}) {
      if (!skip(kind))
        continue;
      group.is_look = std::string_view{kind}.find_first_of("=!") != std::string_view::npos;
      group.ignores_case = group.ignores_case || kind == std::string_view{"(?i:"};
      out_ += kind;
      return open(group);
    }
    if (sees("(?") || sees("(*"))
      return refuse("a group of another kind");
    ++at_;
    out_ += "(?:"; // what it captures is of no use
    return open(group);
  }

  Result<void> open(Group group) {
    end_atom();
    groups_.push_back(group);
    is_last_empty_ = true;
    last_code_ = 0;
    before_ = Before::nothing;
    return {};
  }

  Result<void> close() {
    if (groups_.size() == 1)
      return refuse("a )");
    end_alternative();
    is_last_empty_ = groups_.back().can_be_empty || groups_.back().is_look;
    before_ = groups_.back().is_look ? Before::look : Before::atom;
    groups_.pop_back();
    ++at_;
    out_ += ')';
    return {};
  }

  Result<void> read_quantifier() {
    if (before_ != Before::atom)
      return refuse("a quantifier that follows nothing to repeat");
    const bool has_numbers = in_[at_] == '{';
    // When such a repetition ends differs, and ICU can go on with it for hours.
    if (in_[at_] != '?' && is_last_empty_)
      return refuse("a repetition of what can be nothing");
    if (has_numbers) {
      GPUACTORS_TRY(read_numbers());
    } else {
      is_last_empty_ = is_last_empty_ || in_[at_] != '+';
      out_ += in_[at_++];
    }
    if (at_ < in_.size() && (in_[at_] == '?' || in_[at_] == '+')) {
      if (has_numbers)
        return refuse("a {} with another quantifier");
      out_ += in_[at_++];
    }
    last_code_ = 0;
    before_ = Before::quantifier;
    return {};
  }

  Result<void> read_numbers() {
    constexpr int most_repeated = 1000;
    const auto end = in_.find('}', at_);
    const auto text = in_.substr(at_ + 1, end == std::string_view::npos ? end : end - at_ - 1);
    const auto comma = text.find(',');
    const auto least = read_number(text.substr(0, comma));
    const auto most = comma == std::string_view::npos ? least
                      : comma + 1 == text.size()      ? std::optional{most_repeated}
                                                      : read_number(text.substr(comma + 1));
    if (end == std::string_view::npos || !least || !most || *least > *most || *most > most_repeated || *most == 0)
      return refuse("no {n}, {n,} or {n,m} with numbers up to 1000");
    is_last_empty_ = *least == 0;
    out_ += in_.substr(at_, end + 1 - at_);
    at_ = end + 1;
    return {};
  }

  static std::optional<int> read_number(std::string_view text, int base = 10) {
    int number = 0;
    const auto* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, number, base);
    return text.empty() || text[0] == '-' || error != std::errc{} || at != end ? std::nullopt : std::optional{number};
  }

  static Atom write(char32_t code) {
    return {code, fmt::format("\\x{{{:X}}}", static_cast<std::uint32_t>(code))};
  }

  /// A character, or an escape. It lets `at_` stay where it was on failure.
  Result<Atom> read_atom() {
    if (in_[at_] != '\\') {
      const auto character = character_at(in_, at_);
      at_ += character.bytes;
      return write(character.code);
    }
    if (at_ + 1 == in_.size())
      return refuse("a \\ at its end");
    const char next = in_[at_ + 1];
    constexpr std::string_view names = "rntfae";
    constexpr std::u32string_view codes = U"\r\n\t\f\a\x1B";
    if (const auto found = names.find(next); found != std::string_view::npos) {
      at_ += 2;
      return write(codes[found]);
    }
    if (std::string_view{"sSdD"}.find(next) != std::string_view::npos) {
      at_ += 2;
      return Atom{std::nullopt, fmt::format("\\{}", next)};
    }
    if (next == 'p' || next == 'P')
      return read_property();
    if (next == 'u' || next == 'x')
      return read_number_of_character();
    if (std::string_view{"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ "}.find(next) == std::string_view::npos)
      return refuse(fmt::format("a \\{}", next));
    at_ += 2;
    return write(static_cast<unsigned char>(next));
  }

  Result<Atom> read_number_of_character() {
    const auto brace = in_.substr(at_).starts_with("\\x{") ? in_.find('}', at_) : std::string_view::npos;
    const auto digits = brace != std::string_view::npos ? in_.substr(at_ + 3, brace - at_ - 3)
                        : sees("\\u")                   ? in_.substr(at_ + 2, 4)
                                                        : in_.substr(at_ + 2, 2);
    const auto code = read_number(digits, 16);
    const bool is_character = code && *code <= 0x10FFFF && (*code < 0xD800 || *code > 0xDFFF);
    // Oniguruma takes \x80 for a byte, and \x8 for a character with one digit.
    if (!is_character || (brace == std::string_view::npos && digits.size() != (sees("\\u") ? 4 : 2))
        || (brace == std::string_view::npos && sees("\\x") && *code >= 0x80))
      return refuse("no \\uHHHH, \\x{H} or \\x of a character of ASCII");
    at_ = brace != std::string_view::npos ? brace + 1 : at_ + 2 + digits.size();
    return write(static_cast<char32_t>(*code));
  }

  Result<Atom> read_property() {
    const auto end = in_.find('}', at_);
    if (end == std::string_view::npos || in_.substr(at_ + 2, 1) != "{")
      return refuse("no \\p{..}");
    const std::string name{in_.substr(at_ + 3, end - at_ - 3)};
    const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), [](char one) {
      return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || one == '_';
    });
    // LC and the like are not in both libraries.
    const bool is_known = is_name && name != "LC" && name != "Cased_Letter"
                          && (u_getPropertyValueEnum(UCHAR_GENERAL_CATEGORY_MASK, name.c_str()) != UCHAR_INVALID_CODE
                              || u_getPropertyValueEnum(UCHAR_SCRIPT, name.c_str()) != UCHAR_INVALID_CODE);
    if (!is_known)
      return refuse("a \\p{..} of neither a general category nor a script");
    Atom atom{std::nullopt, std::string{in_.substr(at_, end + 1 - at_)}};
    at_ = end + 1;
    return atom;
  }

  Result<void> read_class() {
    ++at_;
    Atom whole{ignores_case() ? std::optional<char32_t>{U'\0'} : std::nullopt, "["};
    if (skip("^")) {
      whole.written += '^';
      whole.code.reset(); // nor is one known that ignores case
    }
    const auto first = at_;
    while (!sees("]")) {
      if (at_ == in_.size())
        return refuse("a class that does not end");
      // Of these the two libraries make other things than characters.
      if (sees("[") || sees("&&") || (sees("-") && at_ != first && !sees("-]")))
        return refuse("a [, && or - in a class");
      GPUACTORS_LET(atom, read_atom());
      if (ignores_case() && (!atom.code || *atom.code >= 0x80))
        return refuse("what is no character of ASCII in a class that ignores case");
      whole.written += atom.written;
      if (!sees("-") || sees("-]"))
        continue;
      ++at_;
      if (at_ == in_.size() || sees("[") || !atom.code)
        return refuse("no range of characters");
      GPUACTORS_LET(last, read_atom());
      if (!last.code || *last.code < *atom.code || (ignores_case() && *last.code >= 0x80))
        return refuse("no range of characters");
      whole.written += '-' + last.written;
    }
    if (at_ == first)
      return refuse("an empty class");
    ++at_;
    whole.written += ']';
    GPUACTORS_TRY(add(whole));
    last_code_ = 0;
    return {};
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
  /// Those that are open; the first is the whole expression.
  std::vector<Group> groups_{Group{}};
  Before before_ = Before::nothing;
  /// Whether the last atom can match nothing.
  bool is_last_empty_ = true;
  /// Of a letter that the next one could follow in a group that ignores case.
  char32_t last_code_ = 0;
};

} // namespace

Result<std::string> to_icu(std::string_view expression) {
  constexpr std::size_t most_bytes = 4096;
  if (expression.size() > most_bytes)
    return fail(Errc::invalid_argument, fmt::format("a regular expression in tokenizer.json has {} bytes; it has at "
                                                    "most {}",
                                                    expression.size(), most_bytes));
  return Reader{expression}.read();
}

} // namespace llm::tokenizer
