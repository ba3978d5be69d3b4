// Names and sizes of the device vocabulary.
#include <gpuactors/device/types.hpp>

#include <fmt/format.h>

namespace gpuactors {

std::string_view to_string(DeviceKind kind) noexcept {
  switch (kind) {
  case DeviceKind::host:
    return "host";
  case DeviceKind::cuda:
    return "cuda";
  }
  return "unknown";
}

std::string_view to_string(ComputeEnforcement enforcement) noexcept {
  switch (enforcement) {
  case ComputeEnforcement::unenforced:
    return "unenforced";
  case ComputeEnforcement::threads:
    return "threads";
  case ComputeEnforcement::sm_groups:
    return "sm_groups";
  case ComputeEnforcement::time_sliced:
    return "time-sliced";
  case ComputeEnforcement::capped:
    return "capped";
  case ComputeEnforcement::exclusive:
    return "exclusive";
  }
  return "unknown";
}

std::string to_string(const ContextGrant& grant) {
  if (grant.compute == ComputeEnforcement::sm_groups)
    return fmt::format("{} of {} SM groups ({} SMs){}", grant.groups.size(), grant.group_count, grant.units,
                       grant.shared ? ", shared" : "");
  std::string text{to_string(grant.compute)};
  if (grant.compute == ComputeEnforcement::threads)
    text += fmt::format(" ({})", grant.units);
  if (!grant.reason.empty())
    text += fmt::format(" ({})", grant.reason);
  return text;
}

std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
  case DType::u8:
    return 1;
  case DType::f16:
  case DType::bf16:
    return 2;
  case DType::f32:
  case DType::i32:
    return 4;
  case DType::f64:
  case DType::i64:
    return 8;
  }
  return 0;
}

std::string_view to_string(DType dtype) noexcept {
  switch (dtype) {
  case DType::f32:
    return "f32";
  case DType::f64:
    return "f64";
  case DType::i32:
    return "i32";
  case DType::i64:
    return "i64";
  case DType::u8:
    return "u8";
  case DType::f16:
    return "f16";
  case DType::bf16:
    return "bf16";
  }
  return "unknown";
}

} // namespace gpuactors
