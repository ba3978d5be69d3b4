// The kinds of accelerators that a node can have: one table, and what follows from it.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/base/units.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

/// One row of the table: how a kind is called, found, shown to a process, and shared.
struct AcceleratorKind {
  /// Name of the resource that requests ask for, such as "neuron_cores".
  std::string_view name;
  /// The environment variable by which a process is shown its units, such as "NEURON_RT_VISIBLE_CORES".
  std::string_view variable;
  /// Whether a part of a unit can be granted.
  bool fractions = false;
  /// Counts the units of the machine whose files are under `root`; null for `gpus`, which `make_devices` finds.
  Result<int> (*discover)(const std::filesystem::path& root) = nullptr;
};

/// All rows. Any thread.
[[nodiscard]] const std::vector<AcceleratorKind>& accelerator_kinds();

/// The row of that name; null when there is none. Any thread.
[[nodiscard]] const AcceleratorKind* find_accelerator_kind(std::string_view name);

/// Looks for the units of every kind that has a search of its own; kinds without any are left out. Names in `known` are
/// not looked for. Reads files under `root` ("/", unless a test offers another tree).
/// @returns `not_found` when `root` is no folder, `unsupported` when devices are there whose units cannot be counted,
/// naming the file.
Result<std::map<std::string, Share>> discover_accelerators(const std::filesystem::path& root,
                                                           const std::map<std::string, Share>& known);

/// Checks that resources that are accelerators of a kind without fractions come in whole units. Pure; any thread.
/// @returns `invalid_argument`, naming the resource and what to ask for.
Result<void> check_whole_units(const std::map<std::string, Share>& resources);

/// Renders the ids or UUIDs of units as the value of an environment variable: "0,1". Pure; any thread.
[[nodiscard]] std::string visible_units(const std::vector<std::string>& units);

} // namespace gpuactors
