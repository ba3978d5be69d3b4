// Starting and ending a cluster of processes, and what its process does.
#include "processes.hpp"

#include "report.hpp"

#include <gpuactors/cluster/daemon.hpp>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace tour {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

/// The first argument of the process; no option of the tour.
constexpr const char* cluster_command = "cluster-up";
/// How long the process may take to come up or to end, in seconds.
constexpr double seconds_of_patience = 30;

Result<void> failed_to(const char* what, int error) {
  return fail(Errc::unavailable, fmt::format("{}: {}", what, std::strerror(error)));
}

/// How long processes with such devices wait for a sign of each other: the driver of a GPU takes seconds to start, and
/// may keep all threads of its process meanwhile.
gpuactors::Duration link_timeout_with(const std::string& devices) {
  using gpuactors::limits::link_timeout;
  return devices.starts_with("host") ? link_timeout : 2 * link_timeout;
}

/// Reads once, waiting no longer than `watch` allows. @returns what came, empty at the end.
Result<std::string> read_some(int file, const Stopwatch& watch) {
  while (watch.seconds() < seconds_of_patience) {
    pollfd wanted{file, POLLIN, 0};
    const auto left = static_cast<int>((seconds_of_patience - watch.seconds()) * 1000);
    if (::poll(&wanted, 1, std::max(left, 0)) <= 0)
      continue;
    std::array<char, 512> text{};
    if (const auto size = ::read(file, text.data(), text.size()); size >= 0)
      return std::string{text.data(), static_cast<std::size_t>(size)};
    if (errno != EINTR)
      break;
  }
  return fail(Errc::deadline_exceeded, fmt::format("the cluster's process said nothing for {} s", seconds_of_patience));
}

} // namespace

// -- the tour's side ------------------------------------------------------------------------------

Result<std::unique_ptr<Processes>> Processes::start(const std::string& devices,
                                                    const std::vector<std::string>& resources,
                                                    std::vector<std::string> variables) {
  std::vector<std::string> arguments{cluster_command, std::to_string(::getpid()), devices};
  arguments.insert(arguments.end(), resources.begin(), resources.end());
  std::unique_ptr<Processes> result{new Processes};
  GPUACTORS_TRY(result->spawn(std::move(arguments), std::move(variables)));
  GPUACTORS_LET(line, result->first_line());
  GPUACTORS_TRY(result->connect(line, devices));
  return result;
}

Result<void> Processes::spawn(std::vector<std::string> arguments, std::vector<std::string> variables) {
  std::error_code error;
  auto program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error)
    return fail(Errc::unavailable, "the tour's own file cannot be found: " + error.message());
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0)
    return failed_to("no pipe to the cluster's process", errno);
  output_ = pipe[0];
  std::vector<char*> argv{program.data()};
  for (auto& argument : arguments)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  // The first of a name counts.
  std::vector<char*> environment;
  for (auto& variable : variables)
    environment.push_back(variable.data());
  for (auto** variable = environ; *variable != nullptr; ++variable)
    environment.push_back(*variable);
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  const auto code = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  if (code == 0)
    return {};
  pid_ = 0;
  return failed_to("the cluster's process could not be started", code);
}

Result<std::string> Processes::first_line() {
  const Stopwatch watch;
  std::string text;
  while (text.find('\n') == std::string::npos) {
    GPUACTORS_LET(more, read_some(output_, watch));
    if (more.empty())
      return fail(Errc::unavailable, "the cluster's process ended before it was ready");
    text += more;
  }
  return text.substr(0, text.find('\n'));
}

Result<void> Processes::connect(const std::string& line, const std::string& devices) {
  const auto space = line.find(' ');
  gpuactors::ConnectOptions options;
  options.broker = line.substr(0, space);
  options.link_timeout = link_timeout_with(devices);
  options.certificates = line.substr(std::min(space, line.size() - 1) + 1);
  GPUACTORS_LET(cluster, gpuactors::Cluster::connect(options));
  cluster_ = std::make_unique<gpuactors::Cluster>(std::move(cluster));
  return {};
}

Processes::~Processes() {
  cluster_.reset();
  if (pid_ > 0) {
    ::kill(pid_, SIGTERM);
    const Stopwatch watch;
    for (auto text = read_some(output_, watch); !text || !text->empty(); text = read_some(output_, watch))
      if (!text) {
        ::kill(pid_, SIGKILL);
        break;
      }
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
      // Again.
    }
  }
  if (output_ >= 0)
    ::close(output_);
}

// -- the side of the process ----------------------------------------------------------------------

namespace {

/// A folder that goes with this object.
class TemporaryFolder {
public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path(error_) / "gpuactors-tour-XXXXXX").string()) {
    if (!error_ && ::mkdtemp(path_.data()) == nullptr)
      error_ = {errno, std::generic_category()};
  }

  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  ~TemporaryFolder() {
    std::error_code ignored;
    if (!error_)
      std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::string& path() const noexcept {
    return path_;
  }

  [[nodiscard]] const std::error_code& error() const noexcept {
    return error_;
  }

private:
  std::error_code error_;
  std::string path_;
};

/// Adds what "neuron_cores=2" says.
Result<void> add_resource(std::map<std::string, double>& resources, std::string_view text) {
  const auto equals = std::min(text.find('='), text.size());
  double amount = 0;
  const auto number = text.substr(std::min(equals + 1, text.size()));
  if (std::from_chars(number.data(), number.data() + number.size(), amount).ec != std::errc{})
    return fail(Errc::invalid_argument, fmt::format("\"{}\" is no NAME=NUMBER", text));
  resources[std::string{text.substr(0, equals)}] = amount;
  return {};
}

Result<void> run_cluster(const std::vector<std::string>& arguments) {
  constexpr std::size_t least = 2;
  if (arguments.size() < least)
    return fail(Errc::invalid_argument, "a cluster is started by the tour");
  // Kept until run_up takes them, so that none ends the process before its folder is gone.
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGTERM);
  ::sigaddset(&ends, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  // Nor does a line that nobody reads any more.
  ::signal(SIGPIPE, SIG_IGN);
  // A tour that is killed takes its cluster along. One that is gone already sent no signal.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (std::to_string(::getppid()) != arguments[0])
    return fail(Errc::unavailable, "the tour has ended");
  const TemporaryFolder folder;
  if (folder.error())
    return fail(Errc::unavailable, fmt::format("{}: {}", folder.path(), folder.error().message()));
  gpuactors::BrokerDaemon broker;
  broker.listen = "127.0.0.1:0";
  gpuactors::NodeDaemon node;
  node.name = "local";
  node.devices = arguments[1];
  for (auto i = least; i < arguments.size(); ++i)
    GPUACTORS_TRY(add_resource(node.resources, arguments[i]));
  gpuactors::DaemonOptions options;
  options.certificates = folder.path();
  options.link_timeout = link_timeout_with(node.devices);
  options.notice = [](std::string_view line) { fmt::print(stderr, "gpuactors-tour, cluster: {}\n", line); };
  options.ready = [&](std::string_view where) {
    fmt::print("{} {}\n", where, folder.path());
    std::fflush(stdout);
  };
  return gpuactors::run_up(broker, node, options);
}

} // namespace

std::optional<int> run_if_cluster(int argc, const char* const* argv) {
  if (argc < 2 || std::string_view{argv[1]} != cluster_command)
    return std::nullopt;
  const auto done = run_cluster({argv + 2, argv + argc});
  if (!done)
    fmt::print(stderr, "gpuactors-tour, cluster: {}\n", done.error().message());
  return done ? 0 : 1;
}

} // namespace tour
