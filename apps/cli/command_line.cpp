#include "command_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace gpuactors::cli {

namespace {

/// Whether the character means nothing to a shell, wherever in a word it stands.
bool is_plain(char c) {
  constexpr std::string_view marks = "%+,-./:@_";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
         || marks.find(c) != std::string_view::npos;
}

} // namespace

std::string shell_quoted(std::string_view word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain))
    return std::string{word};
  std::string quoted = "'";
  for (const char c : word)
    if (c == '\'')
      quoted += R"('\'')"; // nothing stands for a quote within quotes: they end, and begin again
    else
      quoted += c;
  return quoted + "'";
}

std::string connection_arguments(const ConnectOptions& options) {
  if (options.broker.empty())
    return {};
  auto arguments = "--broker " + shell_quoted(options.broker);
  if (options.insecure) {
    arguments += " --insecure";
  } else if (!options.certificates.empty()) {
    std::error_code error;
    const auto folder = std::filesystem::absolute(options.certificates, error);
    arguments += " --certs " + shell_quoted(error ? options.certificates : folder.string());
  }
  if (options.heartbeat != limits::heartbeat)
    arguments += fmt::format(" --heartbeat {}", to_seconds(options.heartbeat));
  if (options.link_timeout != limits::link_timeout)
    arguments += fmt::format(" --link-timeout {}", to_seconds(options.link_timeout));
  return arguments;
}

} // namespace gpuactors::cli
