// A cluster of real processes on loopback: started, hurt and ended by a test.
#pragma once

#include <gpuactors/agent/process_table.hpp>
#include <gpuactors/gpuactors.hpp>

#include <support/messages.hpp>
#include <support/results.hpp>
#include <support/temporary_folder.hpp>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors::test {

/// Looks again and again until it holds; false after thirty seconds.
bool eventually(const std::function<bool()>& condition);

/// Processes of a cluster, by name. All of them are gone with the object.
class Processes {
public:
  /// @param link how long a process may be silent before the others take it for dead.
  explicit Processes(std::chrono::milliseconds link = patience);
  ~Processes();

  /// Starts `gpuactors broker`; it keeps its port when it is started again under the same name.
  void start_broker(std::vector<std::string> arguments = {});

  /// Starts `gpuactors broker --standby-of`. Nodes and clients that are started from now on know both.
  /// @param listen where; empty: at any port.
  void start_standby(const std::string& name, const std::string& of, std::vector<std::string> arguments,
                     const std::string& listen = "127.0.0.1:0");

  /// Starts a broker at an address that the others know already, and waits until it serves.
  void restart_broker(const std::string& name, const std::string& listen, std::vector<std::string> arguments);

  /// The same without waiting for anything.
  void start_process(const std::string& name, const std::string& listen, std::vector<std::string> arguments);

  /// A path in the folder of this cluster.
  [[nodiscard]] std::string file(const std::string& name) const {
    return (folder_ / name).string();
  }

  /// Starts `gpuactors node` whose workers are this program.
  void start_node(const std::string& name, const std::string& devices = "host:2x64MiB",
                  std::vector<std::string> arguments = {});

  /// A broker and one node, and a client of them.
  Cluster up(const std::string& devices = "host:2x64MiB");

  /// A client. Its heartbeats are as fast as those of the others.
  Cluster connect(std::chrono::milliseconds grace = {});

  /// Starts a client of its own: two actors that end with it, and tasks without end.
  void start_client(const std::string& name);

  /// Starts a client with the actor "guest" that may be away so long; see `run_guest`.
  void start_guest(const std::string& name, std::chrono::seconds grace);

  /// Starts a client that reads a stream of the actor; see `run_reader`.
  void start_reader(const std::string& name, const std::string& actor, const std::string& method = "count");

  /// Signals one of the processes; for SIGKILL returns when it is reaped.
  void signal(const std::string& name, int number);

  /// Waits until it is gone.
  void await_end(const std::string& name);

  [[nodiscard]] bool runs(const std::string& name);

  /// The process of that name, and all that it has started: workers of a node.
  [[nodiscard]] std::vector<pid_t> pids(const std::string& name);

  /// The folder with the certificates of all of them.
  [[nodiscard]] std::string certificates() const {
    return (folder_ / "gpuactors/certs").string();
  }

  /// All that the processes wrote.
  [[nodiscard]] std::string output();

  /// How many of the lines that they wrote contain it.
  [[nodiscard]] std::size_t count(const std::string& part);

  [[nodiscard]] const std::string& broker() const noexcept {
    return broker_;
  }

  /// How long a process may be silent unless the test says otherwise: longer than a busy machine makes it.
  static constexpr std::chrono::milliseconds patience{10'000};

  /// The same for tests that wait until a frozen process is noticed.
  static constexpr std::chrono::milliseconds link_timeout{1'000};

  /// Sends a signal to any process of this cluster, by its number; returns when one that was told to stop has stopped.
  static void signal(pid_t pid, int number);

private:
  /// @returns how many lines there were before.
  std::size_t start(const std::string& name, std::vector<std::string> arguments, const std::string& program = {});
  /// Waits for such a line, after so many others.
  std::string await_line(const std::string& part, std::size_t after);

  std::chrono::milliseconds link_;
  TemporaryFolder folder_;
  std::mutex mutex_;
  std::map<std::string, Process> running_;
  std::vector<std::string> lines_;
  std::string broker_;
  std::unique_ptr<ProcessTable> table_;
};

/// The pid of the process that an actor runs in, as the actor says.
pid_t pid_of(const ActorRef& actor);

/// The first event of a kind, and of a name if there is one, that the broker still has.
std::optional<v1::Event> event_of(Cluster& cluster, const std::string& kind, const std::string& name = {});

/// Whether nothing is held any more, by what the broker says.
bool is_idle(Cluster& cluster);

} // namespace gpuactors::test
