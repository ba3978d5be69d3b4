// What source of clients may include: the compiler reads files with the rights of its process, and its log quotes them.
#include <gpuactors/actor/source_task.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace gpuactors {

namespace {

bool is_word(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
}

/// The source with lines put together that a backslash divides, as the compiler reads it.
std::string joined_lines(std::string_view source) {
  std::string result;
  for (std::size_t at = 0; at < source.size(); ++at) {
    // As it is, or as a trigraph.
    const std::size_t mark = source[at] == '\\' ? 1 : source.substr(at).starts_with("?\?/") ? 3 : 0;
    if (mark > 0) {
      auto end = at + mark;
      // Compilers take spaces before the end of the line for nothing.
      while (end < source.size() && (source[end] == ' ' || source[end] == '\t' || source[end] == '\r'))
        ++end;
      if (end < source.size() && source[end] == '\n') {
        at = end;
        continue;
      }
    }
    result += source[at];
  }
  return result;
}

/// Skips spaces and comments within a line.
std::string_view after_space(std::string_view text) {
  for (;;) {
    const auto begin = std::find_if(text.begin(), text.end(), [](char letter) {
      return letter != ' ' && letter != '\t' && letter != '\v' && letter != '\f' && letter != '\r';
    });
    text.remove_prefix(static_cast<std::size_t>(begin - text.begin()));
    if (!text.starts_with("/*"))
      return text;
    const auto end = text.find("*/");
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
  }
}

/// Whether it is the name of a header between brackets, which leads nowhere but to what the compiler has itself.
bool is_own_header(std::string_view text) {
  const auto end = text.find('>');
  if (!text.starts_with('<') || end == std::string_view::npos)
    return false;
  const auto name = text.substr(1, end - 1);
  const bool is_plain = std::all_of(name.begin(), name.end(), [](char letter) {
    return is_word(letter) || letter == '/' || letter == '.' || letter == '-' || letter == '+';
  });
  return is_plain && !name.empty() && !name.starts_with('/') && name.find("..") == std::string_view::npos;
}

/// The length of what begins a directive; 0: nothing that does.
std::size_t mark_at(std::string_view text) {
  for (const std::string_view mark : {"#", "%:", "?\?="})
    if (text.starts_with(mark))
      return mark.size();
  return 0;
}

Failure not_for_them(std::string_view what) {
  return fail(Errc::permission_denied,
              fmt::format("{} in source that comes with a client's certificate: it may include headers that the "
                          "compiler has itself, as <cuda_fp16.h>, and no files of the node",
                          what));
}

} // namespace

Result<void> check_foreign_source(const v1::SourceTask& task) {
  for (const auto& option : task.options())
    if (option.starts_with("-I") || option.starts_with("--include-path"))
      return not_for_them(fmt::format("the option \"{}\"", option));
  const auto source = joined_lines(task.source());
  for (const std::string_view asks : {"__has_include", "__has_embed"})
    if (source.find(asks) != std::string::npos)
      return not_for_them(asks);
  for (std::string_view rest = source; !rest.empty(); rest.remove_prefix(1)) {
    const auto mark = mark_at(rest);
    if (mark == 0)
      continue;
    const auto directive = after_space(rest.substr(mark));
    const auto end = std::find_if_not(directive.begin(), directive.end(), is_word);
    const auto name = directive.substr(0, static_cast<std::size_t>(end - directive.begin()));
    // A letter may be spelled by its number. (Any other backslash is in a text, as "#\n".)
    const bool is_spelled_out = directive.starts_with("\\u") || directive.starts_with("\\U")
                                || directive.starts_with("\\N") || directive.starts_with("?\?/");
    if (is_spelled_out || name == "embed" || name == "import" || name == "include_next"
        || (name == "include" && !is_own_header(after_space(directive.substr(name.size())))))
      return not_for_them("#" + std::string{directive.substr(0, std::min<std::size_t>(directive.find('\n'), 80))});
  }
  return {};
}

} // namespace gpuactors
