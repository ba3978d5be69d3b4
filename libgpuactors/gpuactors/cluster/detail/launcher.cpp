#include <gpuactors/agent/worker_output.hpp>
#include <gpuactors/cluster/detail/launcher.hpp>
#include <gpuactors/wire/json.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace gpuactors::detail {

namespace {

std::uint64_t number_of(const Process& process) {
  return std::strtoull(process.tag.c_str(), nullptr, 10);
}

} // namespace

Launcher::Launcher(LauncherOptions options) : options_(std::move(options)) {
  options_.setup.set_parent(static_cast<std::uint32_t>(getpid()));
  ProcessHandlers handlers;
  handlers.on_line = [this](const Process& process, OutputStream stream, std::string_view text, LogTime time) {
    const auto line = split_mark(text);
    std::string purpose;
    {
      const std::lock_guard lock{mutex_};
      const auto running = running_.find(number_of(process));
      if (running == running_.end())
        return;
      running->second.last_line = line.text;
      purpose = running->second.purpose;
    }
    options_.on_line({number_of(process), purpose, line.holder, stream, line.text, time});
  };
  handlers.on_exit = [this](const Process& process, const ExitStatus& status) { exited(process, status); };
  if (auto made = ProcessTable::make(std::move(handlers)))
    table_ = std::move(*made);
  else
    why_no_table_ = made.error().message();
}

void Launcher::report_to(caf::strong_actor_ptr agent) {
  const std::lock_guard lock{mutex_};
  agent_ = std::move(agent);
}

void Launcher::close() {
  std::shared_ptr<ProcessTable> table;
  {
    const std::lock_guard lock{mutex_};
    agent_ = nullptr;
    table.swap(table_);
  }
}

Result<void> Launcher::start(const WorkerCommand& command) {
  auto setup = options_.setup;
  setup.set_number(command.number);
  for (const auto& device : command.devices)
    *setup.add_devices() = device;
  GPUACTORS_LET(json, message_to_json(setup));
  Command child;
  child.path = options_.program;
  child.arguments = {"worker", json};
  for (const auto& [name, value] : command.environment)
    if (value)
      child.set.emplace(name, *value);
    else
      child.removed.push_back(name);
  child.tag = std::to_string(command.number);
  std::shared_ptr<ProcessTable> table;
  {
    // Not held while it starts: the table's thread may be telling of another one's end.
    const std::lock_guard lock{mutex_};
    table = table_;
    running_[command.number].purpose = command.purpose;
  }
  auto process = table != nullptr ? table->start(child) : Result<Process>{fail(Errc::unavailable, why_no_table_)};
  const std::lock_guard lock{mutex_};
  if (!process) {
    running_.erase(command.number);
    return fail(process.error());
  }
  // Unless it has ended already.
  if (const auto running = running_.find(command.number); running != running_.end())
    running->second.process = process->id;
  return {};
}

void Launcher::kill(std::uint64_t number) {
  std::shared_ptr<ProcessTable> table;
  ProcessId process;
  {
    const std::lock_guard lock{mutex_};
    table = table_;
    if (const auto found = running_.find(number); found != running_.end())
      process = found->second.process;
  }
  if (table != nullptr && process)
    static_cast<void>(table->signal(process, SIGKILL)); // it may have ended just now
}

void Launcher::exited(const Process& process, const ExitStatus& status) {
  v1::WorkerExited message;
  message.set_worker(number_of(process));
  message.set_text(to_string(status));
  caf::strong_actor_ptr agent;
  {
    const std::lock_guard lock{mutex_};
    const auto running = running_.extract(message.worker());
    if (!running.empty() && !running.mapped().last_line.empty() && !status.succeeded())
      *message.mutable_text() += fmt::format("; its last line was \"{}\"", running.mapped().last_line);
    agent = agent_;
  }
  caf_version::post(agent, std::move(message));
}

Result<std::vector<v1::Device>> describe_devices(const std::string& program, const std::string& node,
                                                 const std::string& spec) {
  std::error_code error;
  auto path = (std::filesystem::temp_directory_path(error) / "gpuactors-describe-XXXXXX").string();
  const int fd = mkstemp(path.data());
  if (fd < 0)
    return fail(Errc::unavailable, fmt::format("{} cannot be written: {}", path, std::strerror(errno)));
  ::close(fd);
  std::mutex mutex;
  std::condition_variable wake;
  std::optional<ExitStatus> ended;
  std::string last_line;
  ProcessHandlers handlers;
  handlers.on_line = [&](const Process&, OutputStream, std::string_view text, LogTime) { last_line = text; };
  handlers.on_exit = [&](const Process&, const ExitStatus& status) {
    const std::lock_guard lock{mutex};
    ended = status;
    wake.notify_all();
  };
  Command command;
  command.path = program;
  command.arguments = {"worker", "--describe", node, spec, path};
  command.tag = "describe";
  Result<void> done;
  {
    GPUACTORS_LET(table, ProcessTable::make(std::move(handlers)));
    auto started = table->start(command);
    if (!started) {
      done = fail(started.error());
    } else {
      std::unique_lock lock{mutex};
      if (!wake.wait_for(lock, limits::worker_start, [&] { return ended.has_value(); }))
        done = fail(Errc::unavailable, fmt::format("{} did not say what devices there are within {} s", program,
                                                   limits::worker_start.count()));
    }
  }
  std::ostringstream text;
  text << std::ifstream{path}.rdbuf();
  std::filesystem::remove(path, error);
  GPUACTORS_TRY(done);
  if (!ended->succeeded())
    return fail(Errc::invalid_argument,
                last_line.empty() ? fmt::format("{} {} when it was asked for its devices", program, to_string(*ended))
                                  : last_line);
  if (text.str().empty())
    return fail(Errc::invalid_argument, fmt::format("{} is no program of gpuactors: it does not say what devices there "
                                                    "are. A program of yours calls Cluster::open, or run_if_worker, "
                                                    "first of all",
                                                    program));
  GPUACTORS_LET(payload, payload_from_json(*v1::Node::descriptor(), text.str()));
  GPUACTORS_LET(described, std::move(payload).take_as<v1::Node>());
  return std::vector<v1::Device>{described.devices().begin(), described.devices().end()};
}

} // namespace gpuactors::detail
