#include <gpuactors/agent/worker_output.hpp>
#include <gpuactors/cluster/detail/launcher.hpp>
#include <gpuactors/wire/json.hpp>

#include <unistd.h>

#include <csignal>
#include <cstdlib>

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
      running->second.last_lines.add(line.holder, line.text);
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
  child.path = options_.programs.at(command.program);
  child.arguments = {"worker", json};
  for (const auto& [name, value] : command.environment)
    if (value)
      child.set.emplace(name, *value);
    else
      child.removed.push_back(name);
  child.tag = std::to_string(command.number);
  std::shared_ptr<ProcessTable> table;
  {
    // The lock must not be held during `table->start`: the table's thread may be reporting another worker's end.
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
  // The worker may have ended already.
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
    static_cast<void>(table->signal(process, SIGKILL)); // fails only if the worker has just ended
}

void Launcher::exited(const Process& process, const ExitStatus& status) {
  v1::WorkerExited message;
  message.set_worker(number_of(process));
  message.set_text(to_string(status));
  caf::strong_actor_ptr agent;
  {
    const std::lock_guard lock{mutex_};
    const auto running = running_.extract(message.worker());
    if (!running.empty() && !status.succeeded())
      running.mapped().last_lines.write_to(message);
    agent = agent_;
  }
  caf_version::post(agent, std::move(message));
}

} // namespace gpuactors::detail
