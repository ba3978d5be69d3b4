#include "command.hpp"

#include <apps/cli/plain_output.hpp>
#include <apps/cli/usage.hpp>

#include <poll.h>
#include <unistd.h>

#include <exception>
#include <iostream>
#include <string_view>

namespace gpuactors::cli {

namespace {

constexpr int exit_failure = 1;
constexpr int exit_bad_input = 2;

int report(std::string_view who, std::string_view text, int code) {
  // A daemon that has failed ends, so that it is started again, whether somebody reads why or not.
  constexpr int patience_ms = 1'000;
  pollfd error{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&error, 1, patience_ms) != 0)
    std::cerr << who << ": " << plain_text(one_line(text)) << std::endl;
  return code;
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
  // Names, reasons and lines of logs are of programs that others run.
  const PlainOutput plain;
  program.require_subcommand(1);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& wish) { // --help, --version
    program.exit(wish, std::cout, std::cerr);
    return std::cout.flush() ? 0 : report("gpuactors", "standard output cannot be written", exit_failure);
  } catch (const CLI::ParseError& error) {
    return report(chosen_name(program), explain(program, error), exit_bad_input);
  }
  for (const auto& command : commands)
    if (command.parser->parsed())
      return run_command(command, chosen_name(program));
  return report("gpuactors", "no subcommand was run", exit_failure);
} catch (const std::exception& error) {
  return report("gpuactors", error.what(), exit_failure);
}

} // namespace gpuactors::cli
