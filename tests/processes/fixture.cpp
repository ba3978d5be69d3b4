#include "fixture.hpp"

#include "client.hpp"

#include <gpuactors/base/files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

namespace gpuactors::test {

bool eventually(const std::function<bool()>& condition) {
  const auto end = Clock::now() + std::chrono::seconds{30};
  while (!condition()) {
    if (Clock::now() > end)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
  return true;
}

namespace {

/// Whether no thread of it runs: they stop one after the other, a moment after the signal.
bool has_stopped(pid_t pid) {
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator{fmt::format("/proc/{}/task", pid), gone}) {
    const auto text = detail::read_to_end(thread.path() / "stat");
    const auto name_end = text ? text->rfind(')') : std::string::npos;
    if (name_end != std::string::npos && text->compare(name_end, 4, ") T ") != 0)
      return false;
  }
  return true;
}

/// This program, which is its own worker.
std::string own_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

/// `gpuactors`, in the folder of this program.
std::string command_line() {
  return std::filesystem::path{own_program()}.replace_filename("gpuactors").string();
}

} // namespace

Processes::Processes(std::chrono::milliseconds link) : link_(link) {
  ProcessHandlers handlers;
  handlers.on_line = [this](const Process& process, OutputStream, std::string_view line, LogTime) {
    const std::lock_guard lock{mutex_};
    lines_.push_back(process.tag + ": " + std::string{line});
  };
  handlers.on_exit = [this](const Process& process, const ExitStatus& status) {
    const std::lock_guard lock{mutex_};
    lines_.push_back(process.tag + " " + to_string(status));
    if (const auto known = running_.find(process.tag); known != running_.end() && known->second.id == process.id)
      running_.erase(known);
  };
  table_ = must(ProcessTable::make(std::move(handlers)));
}

Processes::~Processes() {
  UNSCOPED_INFO(output());
  table_.reset();
}

std::size_t Processes::start(const std::string& name, std::vector<std::string> arguments, const std::string& program) {
  Command command;
  command.path = program.empty() ? command_line() : program;
  if (program.empty())
    arguments.insert(arguments.end(), {"--heartbeat", "0.2", "--link-timeout", fmt::format("{}", to_seconds(link_))});
  command.arguments = std::move(arguments);
  command.set["XDG_STATE_HOME"] = folder_.path().string();
  command.removed = {"GPUACTORS_BROKER", "GPUACTORS_CERTS"};
  command.tag = name;
  std::size_t before = 0;
  {
    const std::lock_guard lock{mutex_};
    before = lines_.size();
  }
  auto process = must(table_->start(command));
  const std::lock_guard lock{mutex_};
  running_[name] = process;
  return before;
}

std::string Processes::await_line(const std::string& part, std::size_t after) {
  std::string found;
  const bool there = eventually([&] {
    const std::lock_guard lock{mutex_};
    for (auto number = after; number < lines_.size(); ++number)
      if (lines_[number].find(part) != std::string::npos) {
        found = lines_[number];
        return true;
      }
    return false;
  });
  INFO(output());
  REQUIRE(there);
  return found;
}

void Processes::start_broker(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"broker", "--listen", broker_.empty() ? "127.0.0.1:0" : broker_});
  const auto before = start("broker", std::move(arguments));
  const auto line = await_line("broker listens at ", before);
  broker_ = line.substr(line.rfind(' ') + 1);
}

void Processes::start_process(const std::string& name, const std::string& listen, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"broker", "--listen", listen});
  start(name, std::move(arguments));
}

void Processes::restart_broker(const std::string& name, const std::string& listen, std::vector<std::string> arguments) {
  const auto before = count({});
  start_process(name, listen, std::move(arguments));
  await_line("broker listens at ", before);
}

void Processes::start_standby(const std::string& name, const std::string& of, std::vector<std::string> arguments,
                              const std::string& listen) {
  arguments.insert(arguments.begin(), {"broker", "--listen", listen});
  if (!of.empty())
    arguments.insert(arguments.end(), {"--standby-of", of});
  const auto before = start(name, std::move(arguments));
  const auto line = await_line("broker stands by at ", before);
  if (!of.empty())
    broker_ = of + "," + line.substr(line.rfind(' ') + 1);
}

void Processes::start_node(const std::string& name, const std::string& devices, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {"node", "--broker", broker_, "--name", name, "--devices", devices, "--program", own_program()});
  const auto before = start(name, std::move(arguments));
  await_line("node " + name + " is registered", before);
}

void Processes::start_client(const std::string& name) {
  start(name, {"client", broker_, certificates(), std::to_string(link_.count())}, own_program());
}

void Processes::start_guest(const std::string& name, std::chrono::seconds grace) {
  start(name, {"guest", broker_, certificates(), std::to_string(link_.count()), std::to_string(grace.count())},
        own_program());
}

void Processes::start_reader(const std::string& name, const std::string& actor, const std::string& method) {
  start(name, {"reader", broker_, certificates(), std::to_string(link_.count()), actor, method}, own_program());
}

Cluster Processes::up(const std::string& devices) {
  start_broker();
  start_node("n0", devices);
  return connect();
}

Cluster Processes::connect(std::chrono::milliseconds grace) {
  return must(connect_quickly(broker_, certificates(), link_, grace));
}

void Processes::signal(const std::string& name, int number) {
  ProcessId id;
  pid_t pid = 0;
  {
    const std::lock_guard lock{mutex_};
    REQUIRE(running_.count(name) == 1);
    id = running_.at(name).id;
    pid = running_.at(name).pid;
  }
  must(table_->signal(id, number));
  if (number == SIGKILL)
    await_end(name);
  if (number == SIGSTOP)
    REQUIRE(eventually([pid] { return has_stopped(pid); }));
}

void Processes::await_end(const std::string& name) {
  REQUIRE(eventually([&] { return !runs(name); }));
}

bool Processes::runs(const std::string& name) {
  const std::lock_guard lock{mutex_};
  return running_.count(name) > 0;
}

std::vector<pid_t> Processes::pids(const std::string& name) {
  std::vector<pid_t> found;
  {
    const std::lock_guard lock{mutex_};
    REQUIRE(running_.count(name) == 1);
    found.push_back(running_.at(name).pid);
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::error_code gone;
    // A child belongs to the thread that started it.
    for (const auto& thread : std::filesystem::directory_iterator{fmt::format("/proc/{}/task", found[i]), gone}) {
      std::ifstream children{thread.path() / "children"};
      for (pid_t pid = 0; children >> pid;)
        found.push_back(pid);
    }
  }
  return found;
}

std::string Processes::output() {
  const std::lock_guard lock{mutex_};
  std::string text;
  for (const auto& line : lines_)
    text += line + "\n";
  return text;
}

std::size_t Processes::count(const std::string& part) {
  const std::lock_guard lock{mutex_};
  return static_cast<std::size_t>(std::count_if(
      lines_.begin(), lines_.end(), [&](const std::string& line) { return line.find(part) != std::string::npos; }));
}

void Processes::signal(pid_t pid, int number) {
  REQUIRE(::kill(pid, number) == 0);
  if (number == SIGSTOP)
    REQUIRE(eventually([pid] { return has_stopped(pid); }));
}

pid_t pid_of(const ActorRef& actor) {
  return static_cast<pid_t>(must(actor.call<Number>("pid").get()).value());
}

std::optional<v1::Event> event_of(Cluster& cluster, const std::string& kind, const std::string& name) {
  const auto state = must(cluster.state({.events_from = 1}));
  const auto event = std::find_if(state.events().begin(), state.events().end(), [&](const v1::Event& one) {
    return one.kind() == kind && (name.empty() || one.name() == name);
  });
  return event == state.events().end() ? std::nullopt : std::optional{*event};
}

bool is_idle(Cluster& cluster) {
  const auto state = cluster.state();
  return state && state->leases().empty() && state->actors().empty() && state->queue().empty();
}

} // namespace gpuactors::test
