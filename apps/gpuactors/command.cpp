#include "command.hpp"

#include <gpuactors/base/suggest.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <string_view>

namespace gpuactors::cli {

namespace {

constexpr int exit_failure = 1;
constexpr int exit_bad_input = 2;

/// Everything on one line: user code and the parser may break theirs.
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
  std::cerr << who << ": " << one_line(text) << std::endl;
  return code;
}

std::vector<std::string> names_of(const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const auto& command : commands)
    names.push_back(command.parser->get_name());
  return names;
}

/// What is wrong with arguments that name no subcommand.
std::string explain_missing(const std::vector<Command>& commands, int argc, const char* const* argv) {
  const auto* const* end = argv + argc;
  const auto* const* word =
      std::find_if(argv + 1, end, [](std::string_view argument) { return !argument.starts_with("-"); });
  if (word != end)
    return fmt::format("there is no subcommand \"{}\"{}", *word, did_you_mean(*word, names_of(commands)));
  if (argc > 1)
    return fmt::format("there is no option {} before a subcommand; see gpuactors --help", argv[1]);
  return fmt::format("a subcommand is needed: {}; see gpuactors --help", fmt::join(names_of(commands), ", "));
}

/// What is wrong with arguments that are left over when `parser` has taken its own.
std::string explain_extra(const CLI::App& parser, const std::vector<std::string>& extras) {
  if (extras.empty())
    return {};
  const auto name = extras.front().substr(0, extras.front().find('='));
  if (!name.starts_with("-"))
    return fmt::format("there is one argument too many: \"{}\"", name);
  std::vector<std::string> known;
  for (const auto* option : parser.get_options())
    for (const auto& spelling : option->get_lnames())
      known.push_back("--" + spelling);
  return fmt::format("there is no option {}{}", name, did_you_mean(name, known));
}

/// Reports arguments that could not be parsed.
int report_usage(const CLI::App& program, const std::vector<Command>& commands, const CLI::ParseError& error, int argc,
                 const char* const* argv) {
  const auto chosen = program.get_subcommands();
  if (chosen.empty())
    return report("gpuactors", explain_missing(commands, argc, argv), exit_bad_input);
  const auto who = "gpuactors " + chosen.front()->get_name();
  auto what =
      error.get_name() == "ExtrasError" ? explain_extra(*chosen.front(), program.remaining(true)) : std::string{};
  if (what.empty())
    what = error.what();
  return report(who, fmt::format("{}; see {} --help", one_line(what), who), exit_bad_input);
}

int run_command(const Command& command) {
  const auto who = "gpuactors " + command.parser->get_name();
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
    return report_usage(program, commands, error, argc, argv);
  }
  for (const auto& command : commands)
    if (command.parser->parsed())
      return run_command(command);
  return report("gpuactors", "no subcommand was run", exit_failure);
} catch (const std::exception& error) {
  return report("gpuactors", error.what(), exit_failure);
}

} // namespace gpuactors::cli
