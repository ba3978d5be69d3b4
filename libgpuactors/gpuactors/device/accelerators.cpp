// The table of kinds of accelerators, and what it answers.
#include <gpuactors/device/accelerators.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors {

// Each `discover` function has its own file in device/accelerators/.
Result<int> discover_neuron_cores(const std::filesystem::path& root);

const std::vector<AcceleratorKind>& accelerator_kinds() {
  static const std::vector<AcceleratorKind> kinds = {
      {"gpus", "CUDA_VISIBLE_DEVICES", true, nullptr},
      {"neuron_cores", "NEURON_RT_VISIBLE_CORES", false, discover_neuron_cores},
  };
  return kinds;
}

const AcceleratorKind* find_accelerator_kind(std::string_view name) {
  for (const auto& kind : accelerator_kinds())
    if (kind.name == name)
      return &kind;
  return nullptr;
}

Result<std::map<std::string, Share>> discover_accelerators(const std::filesystem::path& root,
                                                           const std::map<std::string, Share>& known) {
  std::error_code error;
  if (!std::filesystem::is_directory(root, error))
    return fail(
        Errc::not_found,
        fmt::format("there is no folder {} to look for accelerators in: / is the machine's own", root.string()));
  std::map<std::string, Share> found;
  for (const auto& kind : accelerator_kinds()) {
    const std::string name{kind.name};
    if (kind.discover == nullptr || known.count(name) > 0)
      continue;
    GPUACTORS_LET(count, kind.discover(root));
    if (count > 0)
      found.emplace(name, Share::whole(count));
  }
  return found;
}

Result<void> check_whole_units(const std::map<std::string, Share>& resources) {
  for (const auto& [name, amount] : resources) {
    const auto* kind = find_accelerator_kind(name);
    if (kind == nullptr || kind->fractions || amount.is_whole())
      continue;
    return fail(Errc::invalid_argument, fmt::format("{} is {}: they are granted in whole units only, {} for example",
                                                    name, to_string(amount), amount.units() / Share::one + 1));
  }
  return {};
}

std::string visible_units(const std::vector<std::string>& units) {
  return fmt::format("{}", fmt::join(units, ","));
}

} // namespace gpuactors
