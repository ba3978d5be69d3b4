// The control groups around this process, and what of the machine they let it use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace gpuactors {

/// A control group of Linux: its folder, and the version that it is of, 2 or 1.
struct ControlGroup {
  std::filesystem::path folder;
  int version = 2;
};

/// Returns the groups around this process, each inside the next, of version 2 and of version 1's `controller`, such as
/// "memory". In a container the first ones may be names of the machine that are not there.
/// @param root where proc and sys are; another one in tests. Any thread.
[[nodiscard]] std::vector<ControlGroup> control_groups(std::string_view controller,
                                                       const std::filesystem::path& root = "/");

/// Returns the number that a group's file tells; nothing for "max", "-1", or without the file. Any thread.
[[nodiscard]] std::optional<std::uint64_t> number_of(const std::filesystem::path& file);

/// Returns the processors that this process may use at once: those that it may run on, or the least quota of its
/// control groups, rounded up. At least 1. Any thread.
[[nodiscard]] unsigned usable_cpus(const std::filesystem::path& root = "/");

/// Returns the bytes of memory that this process and others like it can have in all: the machine's, or the least that a
/// control group allows. 0 if the system does not tell. Any thread.
[[nodiscard]] std::uint64_t usable_memory(const std::filesystem::path& root = "/");

} // namespace gpuactors
