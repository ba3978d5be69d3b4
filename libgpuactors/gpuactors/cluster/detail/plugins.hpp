// Loads plugins (libraries with tasks and actors), and explains how a plugin ended the process that loaded it. Internal
// to the cluster layer.
#pragma once

#include <gpuactors/base/result.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors::detail {

/// Loads libraries permanently; their types are in the global registry afterwards. Call before any other thread reads
/// the registry. A faulty library, or one that clashes with loaded code, may end the process.
/// @param say gets progress lines for an `Autopsy`.
/// @returns `not_found` or `invalid_argument`, naming the library: it is not a plugin, was built with other versions,
///          lacks a symbol, or registers a name that is taken or nothing at all. The libraries before it stay loaded.
[[nodiscard]] Result<void> load_plugins(const std::vector<std::string>& files,
                                        const std::function<void(const std::string& line)>& say);

/// Determines which plugin ended a process, and why, from the lines that the process wrote, including those of
/// `load_plugins`.
class Autopsy {
public:
  /// Takes the next line.
  void add(std::string_view line);

  /// The finding in one sentence; empty if the process did not end while loading a plugin.
  /// @param end how the process ended, for example "was ended by signal 11 (SIGSEGV)".
  [[nodiscard]] std::string verdict(std::string_view end) const;

  /// The last line of the process that is not a progress line.
  [[nodiscard]] const std::string& last_line() const noexcept {
    return last_line_;
  }

private:
  std::string plugin_;
  std::string clash_;
  std::string last_line_;
};

} // namespace gpuactors::detail
