// Classifies and describes events.
#include <gpuactors/device/nvml/events.hpp>

#include <fmt/format.h>

namespace gpuactors::nvml {

namespace {

struct Xid {
  std::uint64_t number;
  Severity severity;
  const char* what;
};

/// XIDs whose severity is not the default, or that people meet. Source: NVIDIA's Xid catalog
/// (docs.nvidia.com/deploy/xid-errors). Where its immediate action is to start the application again, a program is the
/// cause; NVIDIA's device plugin for Kubernetes ignores 13, 31, 43, 45, 68 and 109 as well. All other XIDs are fatal,
/// as in that plugin: a device in an unknown state gets no new work.
constexpr Xid known[] = {
    {8, Severity::program, "a program's work took too long"},
    {13, Severity::program, "an exception in a kernel"},
    {31, Severity::program, "an illegal address in a kernel"},
    {41, Severity::program, "an exception of a copy engine"},
    {43, Severity::program, "a program's channel was reset"},
    {45, Severity::program, "a program's work was ended"},
    {68, Severity::program, "an exception of the video decoder"},
    {69, Severity::program, "an exception of a class of the graphics engine"},
    {109, Severity::program, "a context switch timed out"},
    {63, Severity::noted, "a memory row was put out of use"},
    {92, Severity::noted, "many corrected memory errors"},
    {94, Severity::noted, "a contained memory error"},
    {154, Severity::noted, "what the GPU needs to recover has changed"},
    {46, Severity::fatal, "the GPU has stopped processing"},
    {48, Severity::fatal, "an uncorrectable memory error"},
    {62, Severity::fatal, "the power controller has stopped"},
    {64, Severity::fatal, "a memory row could not be put out of use"},
    {74, Severity::fatal, "an NVLink error"},
    {79, Severity::fatal, "the GPU has fallen off the bus"},
    {95, Severity::fatal, "an uncontained memory error"},
    {119, Severity::fatal, "the GPU's own processor does not answer"},
    {120, Severity::fatal, "an error of the GPU's own processor"},
    {140, Severity::fatal, "an unrecovered memory error"},
};

const Xid* find(std::uint64_t number) noexcept {
  for (const auto& xid : known)
    if (xid.number == number)
      return &xid;
  return nullptr;
}

} // namespace

Severity severity_of(std::uint64_t type, std::uint64_t data) noexcept {
  switch (type) {
  case xid_critical: {
    const auto* xid = find(data);
    return xid != nullptr ? xid->severity : Severity::fatal;
  }
  case double_bit_ecc:
  case fatal_poison:
  case gpu_unavailable:
    return Severity::fatal;
  default:
    return Severity::noted;
  }
}

std::string describe_event(std::uint64_t type, std::uint64_t data) {
  switch (type) {
  case xid_critical: {
    const auto* xid = find(data);
    return xid != nullptr ? fmt::format("XID {} ({})", data, xid->what) : fmt::format("XID {}", data);
  }
  case double_bit_ecc:
    return "an uncorrectable ECC error";
  case nonfatal_poison:
    return "a poison error that was dealt with";
  case fatal_poison:
    return "a fatal poison error";
  case gpu_unavailable:
    return "the GPU is unavailable";
  case recovery_action:
    return "what the GPU needs to recover has changed";
  default:
    return fmt::format("event {:#x}", type);
  }
}

} // namespace gpuactors::nvml
