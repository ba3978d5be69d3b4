// Libraries with tasks and actors: how a worker loads them, and what is said of one that ended the process which tried.
// Internal to the cluster layer.
#pragma once

#include <gpuactors/base/result.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors::detail {

/// Loads libraries for good; what they register is in the global registry afterwards. Before any other thread looks
/// there. A library that clashes with what is there, or is faulty, may end the process.
/// @param say is told how far it is, in lines for an `Autopsy`.
/// @returns `not_found` or `invalid_argument`, naming the library: no plugin, built with other versions, lacks a
/// symbol, registers a name that is taken or nothing at all. Those before it stay loaded.
[[nodiscard]] Result<void> load_plugins(const std::vector<std::string>& files,
                                        const std::function<void(const std::string& line)>& say);

/// Finds out from the lines that a process wrote, `load_plugins`' among them, which plugin ended it, and why.
class Autopsy {
public:
  /// Takes the next line.
  void add(std::string_view line);

  /// One sentence; empty when it did not end while it loaded a plugin.
  /// @param end how it ended, for example "was ended by signal 11 (SIGSEGV)".
  [[nodiscard]] std::string verdict(std::string_view end) const;

  /// The last line that the process wrote of its own.
  [[nodiscard]] const std::string& last_line() const noexcept {
    return last_line_;
  }

private:
  std::string plugin_;
  std::string clash_;
  std::string last_line_;
};

} // namespace gpuactors::detail
