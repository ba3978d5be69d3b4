#include <gpuactors/agent/process_table.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/descriptor.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/cluster/detail/describe.hpp>
#include <gpuactors/cluster/detail/plugins.hpp>
#include <gpuactors/wire/greeting.hpp>
#include <gpuactors/wire/json.hpp>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>

namespace gpuactors::detail {

namespace {

/// How often it is looked whether nobody waits any more.
constexpr std::chrono::milliseconds attention{50};

/// The output and end of a child process.
struct Ended {
  Autopsy autopsy;
  /// None if the process took too long and was killed.
  std::optional<ExitStatus> status;
};

Result<Ended> run_to_end(const Command& command, const std::atomic<bool>* given_up) {
  Ended ended;
  std::mutex mutex;
  std::condition_variable wake;
  ProcessHandlers handlers;
  handlers.on_line = [&](const Process&, OutputStream, std::string_view text, LogTime) { ended.autopsy.add(text); };
  bool over = false;
  handlers.on_exit = [&](const Process&, const ExitStatus& status) {
    const std::lock_guard lock{mutex};
    if (!over)
      ended.status = status;
    wake.notify_all();
  };
  GPUACTORS_LET(table, ProcessTable::make(std::move(handlers)));
  GPUACTORS_TRY(table->start(command));
  {
    std::unique_lock lock{mutex};
    const auto end = deadline_after(Clock::now(), limits::worker_start);
    const auto gives_up = [&] { return Clock::now() >= end || (given_up != nullptr && *given_up); };
    while (!ended.status && !gives_up())
      wake.wait_for(lock, attention);
    over = !ended.status;
  }
  // No handler runs after the table is destroyed.
  table.reset();
  return ended;
}

/// Reads the description that a process wrote to its file, or says why there is none.
Result<std::string> read_offer(const std::string& program, const Ended& ended, const std::string& file) {
  const auto end =
      ended.status ? to_string(*ended.status) : fmt::format("was not done within {} s", limits::worker_start.count());
  std::ostringstream text;
  text << std::ifstream{file}.rdbuf();
  if (ended.status && ended.status->succeeded() && !text.str().empty())
    return text.str();
  if (const auto verdict = ended.autopsy.verdict(end); !verdict.empty())
    return fail(Errc::invalid_argument, verdict);
  if (!ended.status)
    return fail(Errc::unavailable, fmt::format("{} {} when it was asked what it has", program, end));
  if (ended.status->succeeded())
    return fail(Errc::invalid_argument, fmt::format("{} is no program of gpuactors: it does not say what devices there "
                                                    "are. A program of yours calls gpuactors::main, or Cluster::open, "
                                                    "first of all",
                                                    program));
  const auto& last_line = ended.autopsy.last_line();
  return fail(Errc::invalid_argument,
              last_line.empty() ? fmt::format("{} {} when it was asked what it has", program, end) : last_line);
}

/// Reads what a program has written: whether it speaks what this one does, and its description.
Result<v1::RegisterNode> offer_of(const std::string& program, std::string_view text) {
  const auto end = std::min(text.find('\n'), text.size());
  const auto greeting = read_greeting(text.substr(0, end));
  if (!greeting)
    return fail(before_revisions(own_greeting(), program));
  GPUACTORS_TRY(agree(own_greeting(), *greeting, program));
  v1::RegisterNode offer;
  GPUACTORS_TRY(message_from_json(offer, text.substr(end), UnknownFields::ignored));
  return offer;
}

} // namespace

Result<v1::RegisterNode> describe_program(const std::string& program, const std::string& node, const std::string& spec,
                                          const std::vector<std::string>& plugins, const std::atomic<bool>* given_up) {
  // Memory, because there may be no file system that can be written. The program is a child, which may open it.
  const Descriptor file{::memfd_create("gpuactors-describe", MFD_CLOEXEC)};
  if (!file)
    return fail(Errc::unavailable, fmt::format("there is no memory for a description: {}", std::strerror(errno)));
  const auto path = fmt::format("/proc/{}/fd/{}", ::getpid(), file.get());
  Command command;
  command.path = program;
  command.arguments = {"worker", "--describe", node, spec, path};
  command.arguments.insert(command.arguments.end(), plugins.begin(), plugins.end());
  command.tag = "describe";
  auto ended = run_to_end(command, given_up);
  auto text = ended ? read_offer(program, *ended, path) : Result<std::string>{fail(ended.error())};
  if (!text)
    return fail(text.error());
  return offer_of(program, *text);
}

} // namespace gpuactors::detail
