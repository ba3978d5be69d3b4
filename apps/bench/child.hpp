// A process of this program beside the one that measures.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace gpuactors::bench {

/// Starts this program again with other arguments, and ends it with this object, or with the process (`leftovers.hpp`).
/// What it writes to standard output is read here. Errors end the program: a benchmark has nothing to fall back on.
class Child {
public:
  explicit Child(std::vector<std::string> arguments);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Asks it to end, and waits until it has.
  ~Child();

  /// The next line that it writes; waits for it.
  [[nodiscard]] std::string line();

  [[nodiscard]] pid_t pid() const noexcept {
    return pid_;
  }

private:
  pid_t pid_ = 0;
  int output_ = -1;
  std::string text_;
};

/// In a process that a `Child` stands for: has it end with the one that started it. First of all.
/// @returns the arguments that it was started with; nothing in any other process.
std::optional<std::vector<std::string>> begin_child(std::vector<std::string> arguments);

/// Waits until somebody asks this process to end.
void wait_for_end();

} // namespace gpuactors::bench
