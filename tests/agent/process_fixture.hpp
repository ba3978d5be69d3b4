// A process table whose events tests wait for.
#pragma once

#include <gpuactors/agent/process_table.hpp>

#include <support/catch.hpp>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace gpuactors::test {

/// Notes what happens to the processes of a table.
class Witness {
public:
  struct Seen {
    std::vector<std::string> out;
    std::vector<std::string> err;
    std::vector<ExitStatus> ends;
    pid_t pid = 0;
    std::string tag;
  };

  ProcessHandlers handlers() {
    return {[this](const Process& process, OutputStream stream, std::string_view text, LogTime) {
              const std::lock_guard guard{mutex_};
              auto& seen = seen_[process.id];
              (stream == OutputStream::out ? seen.out : seen.err).emplace_back(text);
              changed_.notify_all();
            },
            [this](const Process& process, const ExitStatus& status) {
              const std::lock_guard guard{mutex_};
              auto& seen = seen_[process.id];
              seen.ends.push_back(status);
              seen.pid = process.pid;
              seen.tag = process.tag;
              changed_.notify_all();
            }};
  }

  /// Waits until `done` holds for what was seen of the process; a test that waits for a minute has failed.
  template <class Done>
  Seen wait(ProcessId id, Done done) {
    std::unique_lock lock{mutex_};
    const bool in_time = changed_.wait_for(lock, std::chrono::minutes{1}, [&] { return done(seen_[id]); });
    CHECK(in_time);
    return seen_[id];
  }

  Seen wait_end(ProcessId id) {
    return wait(id, [](const Seen& seen) { return !seen.ends.empty(); });
  }

  Seen wait_line(ProcessId id) {
    return wait(id, [](const Seen& seen) { return !seen.out.empty(); });
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<ProcessId, Seen> seen_;
};

inline ExitStatus exited(int code) {
  return {ExitStatus::Kind::exited, code, false};
}

inline ExitStatus ended_by(int signal) {
  return {ExitStatus::Kind::signalled, signal, false};
}

struct TableFixture {
  Witness witness;
  std::unique_ptr<ProcessTable> table = std::move(*ProcessTable::make(witness.handlers()));

  Process start(const Command& command) {
    const auto result = table->start(command);
    INFO((result ? "" : to_string(result.error())));
    REQUIRE(result.has_value());
    return *result;
  }

  Process start_shell(const std::string& script) {
    return start({"/bin/sh", {"-c", script}, {}, {}, {}});
  }

  Process start_probe(const std::vector<std::string>& arguments) {
    return start({PROCESS_PROBE, arguments, {}, {}, {}});
  }

  /// Runs it to its end.
  Witness::Seen run_shell(const std::string& script) {
    return witness.wait_end(start_shell(script).id);
  }
};

} // namespace gpuactors::test
