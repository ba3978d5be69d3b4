#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/suggest.hpp>
#include <gpuactors/cluster/detail/local_processes.hpp>
#include <gpuactors/cluster/detail/process_tree.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

namespace gpuactors::detail {

namespace {

/// How long a program may take to call what it must call first: it is loaded, and its global objects are constructed.
constexpr std::chrono::seconds beginning_patience{20};

/// Lines that are kept.
constexpr std::size_t kept_lines = 1'000;

Failure never_began(const std::string& name, const std::string& what) {
  return fail(Errc::invalid_argument,
              fmt::format("the {} process of the LocalCluster, which is this program started again, {}: main has to "
                          "call gpuactors::main, run_if_worker or Cluster::open(argc, argv) before anything else",
                          name, what));
}

std::string with_last_line(std::string text, const std::string& line) {
  return line.empty() ? text : fmt::format("{}; its last line was \"{}\"", text, line);
}

} // namespace

Result<std::unique_ptr<LocalProcesses>> LocalProcesses::make(Sink sink) {
  std::unique_ptr<LocalProcesses> made{new LocalProcesses{std::move(sink)}};
  ProcessHandlers handlers;
  handlers.on_line = [self = made.get()](const Process& process, OutputStream stream, std::string_view line, LogTime) {
    self->on_line(process, stream, line);
  };
  handlers.on_exit = [self = made.get()](const Process& process, const ExitStatus& status) {
    self->on_exit(process, status);
  };
  GPUACTORS_LET(table, ProcessTable::make(std::move(handlers)));
  made->table_ = std::move(table);
  return made;
}

LocalProcesses::~LocalProcesses() {
  for (const auto& name : names())
    static_cast<void>(kill(name)); // fails only if it has just ended
}

Result<void> LocalProcesses::start(const std::string& name, const LocalRole& role,
                                   std::map<std::string, std::string> environment) {
  Command command;
  std::error_code error;
  // Its name, not the link: below valgrind that is another program, and only who reads it learns the right one.
  command.path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    return fail(Errc::unavailable, "this program's own file cannot be found: " + error.message());
  command.arguments = to_arguments(role);
  command.set = std::move(environment);
  command.set[local_role_variable] = "1";
  command.removed = {"GPUACTORS_BROKER", "GPUACTORS_CERTS"};
  command.tag = name;
  {
    // Its first line may come before `start` has returned.
    const std::lock_guard lock{mutex_};
    ended_.erase(name);
    running_[name] = {};
  }
  auto process = table_->start(command);
  const std::lock_guard lock{mutex_};
  if (!process) {
    running_.erase(name);
    return fail(process.error());
  }
  if (const auto known = running_.find(name); known != running_.end())
    known->second.process = *process;
  return {};
}

std::optional<Result<std::string>> LocalProcesses::outcome(const std::string& name) const {
  const auto running = running_.find(name);
  const auto ended = ended_.find(name);
  if (running == running_.end() && ended == ended_.end())
    return fail(Errc::internal, "nobody has started " + name);
  const auto& process = running != running_.end() ? running->second : ended->second.last;
  if (process.failed)
    return fail(process.failed->code(), fmt::format("{}: {}", name, process.failed->message()));
  if (process.strayed)
    return never_began(name, "has gone past that, and was about to start a LocalCluster too");
  if (running == running_.end()) {
    const auto how = with_last_line(ended->second.how, process.last_line);
    return process.began ? fail(Errc::unavailable, fmt::format("the {} process of the LocalCluster {}", name, how))
                         : never_began(name, how);
  }
  if (process.ready)
    return *process.ready;
  return std::nullopt;
}

Result<std::string> LocalProcesses::await_ready(const std::string& name) {
  const auto begun = Clock::now();
  std::optional<Result<std::string>> known;
  {
    std::unique_lock lock{mutex_};
    const auto has_begun = [&] {
      known = outcome(name);
      return known || running_.at(name).began;
    };
    const auto is_known = [&] { return (known = outcome(name)).has_value(); };
    if (!changed_.wait_until(lock, begun + beginning_patience, has_begun))
      known = never_began(name, fmt::format("did not call that within {} s", beginning_patience.count()));
    else if (!changed_.wait_until(lock, begun + limits::worker_start, is_known))
      known = fail(Errc::unavailable,
                   with_last_line(fmt::format("the {} process of the LocalCluster was not ready within {} s", name,
                                              limits::worker_start.count()),
                                  running_.at(name).last_line));
  }
  if (!*known)
    static_cast<void>(kill(name)); // fails if it has ended, which is most likely why it is not ready
  return *known;
}

Result<Process> LocalProcesses::find(std::string_view name) const {
  const std::lock_guard lock{mutex_};
  if (const auto running = running_.find(name); running != running_.end()) {
    if (running->second.process.pid == 0)
      return fail(Errc::unavailable, fmt::format("{} is being started", name));
    return running->second.process;
  }
  if (const auto ended = ended_.find(name); ended != ended_.end())
    return fail(Errc::not_found, fmt::format("{} does not run: it {}", name, ended->second.how));
  std::vector<std::string> known;
  for (const auto& [other, running] : running_)
    known.push_back(other);
  return fail(Errc::not_found,
              fmt::format("no process of this cluster is named \"{}\"{}", name, did_you_mean(name, known)));
}

Result<void> LocalProcesses::ask_to_end(std::string_view name) {
  GPUACTORS_LET(process, find(name));
  resume_tree(process.pid);
  return table_->signal(process.id, SIGTERM);
}

bool LocalProcesses::wait_for_end(std::string_view name, Duration time) {
  std::unique_lock lock{mutex_};
  return changed_.wait_for(lock, time, [&] { return running_.find(name) == running_.end(); });
}

void LocalProcesses::insist_on_end(std::string_view name, Duration patience) {
  // Signals that come at once are one: the second is sent when the first has been taken.
  constexpr std::chrono::milliseconds pause{200};
  const auto until = Clock::now() + patience;
  while (!wait_for_end(name, pause))
    if (!(Clock::now() < until ? ask_to_end(name) : kill(name)))
      return;
}

Result<void> LocalProcesses::await_end(std::string_view name, Duration patience) {
  if (wait_for_end(name, patience))
    return {};
  GPUACTORS_TRY(kill(name));
  return fail(Errc::deadline_exceeded,
              fmt::format("{} did not end within {} s, and was killed", name, to_seconds(patience)));
}

Result<void> LocalProcesses::kill(std::string_view name) {
  GPUACTORS_LET(process, find(name));
  kill_tree(process.pid);
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return running_.find(name) == running_.end(); });
  return {};
}

Result<void> LocalProcesses::freeze(std::string_view name) {
  GPUACTORS_LET(process, find(name));
  static_cast<void>(freeze_tree(process.pid));
  return {};
}

Result<void> LocalProcesses::resume(std::string_view name) {
  GPUACTORS_LET(process, find(name));
  resume_tree(process.pid);
  return {};
}

Result<pid_t> LocalProcesses::pid(std::string_view name) const {
  GPUACTORS_LET(process, find(name));
  return process.pid;
}

std::vector<std::string> LocalProcesses::names() const {
  const std::lock_guard lock{mutex_};
  std::vector<std::string> names;
  for (const auto& [name, running] : running_)
    names.push_back(name);
  return names;
}

std::string LocalProcesses::output() const {
  const std::lock_guard lock{mutex_};
  return fmt::format("{}", fmt::join(lines_, ""));
}

// -- on the thread of the process table -----------------------------------------------------------

void LocalProcesses::take_report(Running& running, LocalReport report) {
  switch (report.step) {
  case LocalReport::Step::began:
    running.began = true;
    break;
  case LocalReport::Step::ready:
    running.ready = std::move(report.text);
    break;
  case LocalReport::Step::failed:
    running.failed = Error{report.error, std::move(report.text)};
    break;
  case LocalReport::Step::strayed:
    running.strayed = true;
    break;
  }
}

void LocalProcesses::on_line(const Process& process, OutputStream stream, std::string_view line) {
  {
    const std::lock_guard lock{mutex_};
    auto& running = running_[process.tag];
    if (auto report = stream == OutputStream::out ? read_report(line) : std::nullopt) {
      take_report(running, std::move(*report));
      changed_.notify_all();
      return;
    }
    running.last_line = line;
    lines_.push_back(fmt::format("{}: {}\n", process.tag, line));
    if (lines_.size() > kept_lines)
      lines_.pop_front();
  }
  if (sink_)
    sink_(process.tag, line);
}

void LocalProcesses::on_exit(const Process& process, const ExitStatus& status) {
  const std::lock_guard lock{mutex_};
  auto node = running_.extract(process.tag);
  ended_[process.tag] = Ended{std::move(node.mapped()), to_string(status)};
  changed_.notify_all();
}

} // namespace gpuactors::detail
