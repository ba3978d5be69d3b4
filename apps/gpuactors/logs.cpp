// gpuactors logs: what an actor's processes print, or all of a node; -f goes on with what comes.
#include "cluster_options.hpp"
#include "command.hpp"
#include "input.hpp"
#include "json.hpp"

#include <gpuactors/gpuactors.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>

namespace gpuactors::cli {

namespace {

/// The arguments as they were typed.
struct LogsArguments {
  ClusterOptions cluster;
  std::string name;
  std::string name_space;
  std::string node;
  std::optional<std::string> count;
  bool follow = false;
  bool json = false;
};

// Written to by the handler of signals, which may do little else; and whether there was one.
std::atomic<int> interrupt_event{-1};
std::atomic<bool> interrupted{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

constexpr int exit_interrupted = 128 + SIGINT;

void on_interrupt(int /*signal*/) {
  if (interrupted.exchange(true))
    std::_Exit(exit_interrupted);
  const int before = errno;
  ::eventfd_write(interrupt_event.load(), 1);
  errno = before;
}

/// Asks for an end when Ctrl-C is pressed; the second time it ends the program, which may be waiting for a broker. A
/// handler, since a thread that waits for signals does not get them where a library has started others before main.
/// One at a time.
class Interrupt {
public:
  Interrupt() : event_(::eventfd(0, EFD_CLOEXEC)) {
    if (event_ < 0)
      return; // Ctrl-C ends the program as it does others
    interrupt_event = event_;
    thread_ = std::thread{[this] {
      eventfd_t count = 0;
      while (::eventfd_read(event_, &count) != 0 && errno == EINTR) {
        // again
      }
      stop_.request_stop();
    }};
    struct sigaction action {};
    action.sa_handler = on_interrupt;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
  }

  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  ~Interrupt() {
    if (event_ < 0)
      return;
    ::signal(SIGINT, SIG_DFL);
    ::signal(SIGTERM, SIG_DFL);
    ::eventfd_write(event_, 1);
    thread_.join();
    interrupt_event = -1;
    ::close(event_);
  }

  [[nodiscard]] std::stop_token token() const {
    return stop_.get_token();
  }

private:
  int event_;
  std::stop_source stop_;
  std::thread thread_;
};

/// The time of a line in UTC, with so many digits of a second as `Unit` has.
template <class Unit>
std::string time_of(const LogRecord& line, const char* between, const char* end) {
  const auto time = std::chrono::floor<Unit>(line.time);
  const auto second = std::chrono::floor<std::chrono::seconds>(time);
  const auto seconds = fmt::gmtime(std::chrono::system_clock::to_time_t(second));
  constexpr int digits = std::is_same_v<Unit, std::chrono::milliseconds> ? 3 : 6;
  return fmt::format("{:%Y-%m-%d}{}{:%H:%M:%S}.{:0{}}{}", seconds, between, seconds, (time - second).count(), digits,
                     end);
}

void print_line(const LogRecord& line) {
  // A line of several actors stands in brackets, as its worker does in the output of the node.
  const bool of_worker = !line.actor && !line.source.starts_with("task ");
  std::cout << fmt::format("{} {} {}  {}", time_of<std::chrono::milliseconds>(line, " ", ""), line.node,
                           of_worker ? "[" + line.source + "]" : line.source, line.text)
            << std::endl;
}

void print_object(const LogRecord& line) {
  const Json object{{"time", time_of<std::chrono::microseconds>(line, "T", "Z")},
                    {"node", line.node},
                    {"source", line.source},
                    {"actor", line.actor ? json_of(line.actor.value()) : Json("")},
                    {"stream", std::string{to_string(line.stream)}},
                    {"text", line.text}};
  std::cout << object.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
}

Result<void> run_logs(const LogsArguments& arguments) {
  if (arguments.name.empty() && arguments.node.empty())
    return fail(Errc::invalid_argument,
                "an actor's name or --node is needed: gpuactors actors and gpuactors nodes list "
                "what there is");
  LogsOptions options;
  options.name_space = arguments.name_space;
  options.node = arguments.node;
  options.follow = arguments.follow;
  if (arguments.count) {
    GPUACTORS_LET(count, parse_integer("--lines", *arguments.count, 0, limits::log_tail_lines));
    options.count = static_cast<std::size_t>(count);
  }
  const Interrupt interrupt;
  options.stop = interrupt.token();
  GPUACTORS_LET(cluster, arguments.cluster.open());
  return cluster.logs(arguments.name, options, [&](const LogRecord& line) {
    if (arguments.json)
      print_object(line);
    else
      print_line(line);
    return static_cast<bool>(std::cout);
  });
}

} // namespace

Command add_logs(CLI::App& program) {
  auto arguments = std::make_shared<LogsArguments>();
  auto* parser = program.add_subcommand("logs", "Show what an actor prints, or all that a node's workers print");
  parser->add_option("name", arguments->name, "The actor; gpuactors actors lists them. Not needed with --node")
      ->type_name("NAME");
  parser->add_option("--name-space", arguments->name_space, "The one that its name is in")->type_name("S");
  parser
      ->add_option("--node", arguments->node,
                   "Only what was written on this node; there are lines of actors that ended")
      ->type_name("N");
  parser->add_flag("-f,--follow", arguments->follow,
                   "Go on with what comes, until Ctrl-C or the end of the actor; to other nodes when it moves");
  parser
      ->add_option("-n,--lines", arguments->count, "The last so many lines of those that are there; 1000 when left out")
      ->type_name("COUNT");
  parser->add_flag("--json", arguments->json, "Print one object a line");
  arguments->cluster.add_to(*parser, ClusterOptions::Kinds::running);
  parser->footer(
      "Each line with its time (UTC), node and actor. What a worker process with several actors writes without "
      "saying for whom (printf, threads of their own) is shown for each of them, after [device 0] or the "
      "like.\n\n"
      "Examples:\n"
      "  gpuactors logs trainer -f --broker 127.0.0.1:7711\n"
      "  gpuactors logs trainer -n 20 --json --broker 127.0.0.1:7711 | jq -r .text\n"
      "  gpuactors logs trainer --node gpu-3              an actor that ended, where it ran\n"
      "  gpuactors logs --node gpu-3                      all of a node");
  return {parser, [arguments] { return run_logs(*arguments); }};
}

} // namespace gpuactors::cli
