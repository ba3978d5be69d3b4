#include "command.hpp"

#include <gpuactors/base/suggest.hpp>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <string_view>

namespace gpuactors::cli {

namespace {

constexpr int exit_failure = 1;
constexpr int exit_bad_input = 2;

/// Puts a text on one line: texts of user code and of the parser may have several.
std::string one_line(std::string_view text) {
  std::string result;
  for (const char c : text)
    if (c != '\n' && c != '\r')
      result += c;
    else if (!result.empty() && result.back() != ' ')
      result += ' ';
  result.erase(result.find_last_not_of(' ') + 1);
  return result;
}

int report(std::string_view who, std::string_view text, int code) {
  // A daemon that has failed ends, so that it is started again, whether somebody reads why or not.
  constexpr int patience_ms = 1'000;
  pollfd error{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&error, 1, patience_ms) != 0)
    std::cerr << who << ": " << one_line(text) << std::endl;
  return code;
}

/// The innermost subcommand that the arguments name, and its name with those around it: "gpuactors certs issue".
struct Chosen {
  const CLI::App* parser;
  std::string name;
};

Chosen chosen_in(const CLI::App& program) {
  Chosen chosen{&program, program.get_name()};
  for (auto inner = program.get_subcommands(); !inner.empty(); inner = chosen.parser->get_subcommands())
    chosen = {inner.front(), chosen.name + " " + inner.front()->get_name()};
  return chosen;
}

/// Explains arguments that name no subcommand of `parser`; `extras` are the arguments that no parser took.
std::string explain_missing(const CLI::App& parser, const std::vector<std::string>& extras) {
  std::vector<std::string> names;
  for (const auto* inner : parser.get_subcommands([](const CLI::App* /*any*/) { return true; }))
    names.push_back(inner->get_name());
  const auto word = std::find_if(extras.begin(), extras.end(), [](const auto& text) { return !text.starts_with("-"); });
  if (word != extras.end())
    return fmt::format("there is no subcommand \"{}\"{}", *word, did_you_mean(*word, names));
  if (!extras.empty())
    return fmt::format("there is no option {} before a subcommand", extras.front());
  return fmt::format("a subcommand is needed: {}", fmt::join(names, ", "));
}

/// Explains arguments that are left over when `parser` has taken its own.
std::string explain_extra(const CLI::App& parser, const std::vector<std::string>& extras) {
  if (extras.empty())
    return {};
  // An unknown option explains the words that follow it.
  const auto option =
      std::find_if(extras.begin(), extras.end(), [](const auto& word) { return word.starts_with("-"); });
  if (option == extras.end())
    return fmt::format("too many arguments: \"{}\" is one more than it takes", extras.front());
  const auto name = option->substr(0, option->find('='));
  std::vector<std::string> known;
  for (const auto* taken : parser.get_options())
    for (const auto& spelling : taken->get_lnames())
      known.push_back("--" + spelling);
  return fmt::format("there is no option {}{}", name, did_you_mean(name, known));
}

/// Reports arguments that could not be parsed.
int report_usage(const CLI::App& program, const CLI::ParseError& error) {
  const auto [parser, who] = chosen_in(program);
  const auto extras = program.remaining(true);
  std::string what;
  if (parser->get_require_subcommand_min() > 0)
    what = explain_missing(*parser, extras);
  else if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError))
    what = explain_extra(*parser, extras);
  if (what.empty())
    what = error.what();
  what = one_line(what);
  if (!what.ends_with("?"))
    what += fmt::format("; see {} --help", who);
  return report(who, what, exit_bad_input);
}

int run_command(const Command& command, const std::string& who) {
  if (const auto result = command.run(); !result) {
    std::cout.flush();
    return report(who, result.error().message(),
                  result.error().remedy() == Remedy::give_up ? exit_bad_input : exit_failure);
  }
  if (!std::cout.flush())
    return report(who, "standard output cannot be written", exit_failure);
  return 0;
}

} // namespace

int run(CLI::App& program, const std::vector<Command>& commands, int argc, const char* const* argv) try {
  program.require_subcommand(1);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& wish) { // --help, --version
    program.exit(wish, std::cout, std::cerr);
    return std::cout.flush() ? 0 : report("gpuactors", "standard output cannot be written", exit_failure);
  } catch (const CLI::ParseError& error) {
    return report_usage(program, error);
  }
  for (const auto& command : commands)
    if (command.parser->parsed())
      return run_command(command, chosen_in(program).name);
  return report("gpuactors", "no subcommand was run", exit_failure);
} catch (const std::exception& error) {
  return report("gpuactors", error.what(), exit_failure);
}

} // namespace gpuactors::cli
