// The kinds of accelerators that a node can have: one table, and functions that use it.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/base/units.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

/// One row of the table: the name of a kind, and how it is found, shown to a process, and shared.
struct AcceleratorKind {
  /// Name of the resource in requests, such as "neuron_cores".
  std::string_view name;
  /// The environment variable that shows a process its units, such as "NEURON_RT_VISIBLE_CORES".
  std::string_view variable;
  /// Whether parts of a unit can be granted.
  bool fractions = false;
  /// Counts the units of the machine whose files are under `root`; null for `gpus`, which `make_devices` finds.
  Result<int> (*discover)(const std::filesystem::path& root) = nullptr;
};

/// Returns all rows. Any thread.
[[nodiscard]] const std::vector<AcceleratorKind>& accelerator_kinds();

/// Returns the row of that name; null if there is none. Any thread.
[[nodiscard]] const AcceleratorKind* find_accelerator_kind(std::string_view name);

/// Discovers the units of every kind with a `discover` function, except names in `known`; leaves out kinds without
/// units. Reads files under `root` ("/", except in tests).
/// @returns `not_found` if `root` is not a folder, `unsupported` if there are devices whose units cannot be counted,
///          naming the file.
Result<std::map<std::string, Share>> discover_accelerators(const std::filesystem::path& root,
                                                           const std::map<std::string, Share>& known);

/// Checks that resources that are accelerators of a kind without fractions come in whole units. Pure; any thread.
/// @returns `invalid_argument`, naming the resource and what to ask for.
Result<void> check_whole_units(const std::map<std::string, Share>& resources);

/// Renders the ids or UUIDs of units as the value of an environment variable: "0,1". Pure; any thread.
[[nodiscard]] std::string visible_units(const std::vector<std::string>& units);

} // namespace gpuactors
