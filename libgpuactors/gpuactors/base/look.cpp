#include <gpuactors/base/control_groups.hpp>
#include <gpuactors/base/look.hpp>

#include <cstdlib>

namespace gpuactors {

LookTimes look_times(unsigned processors, std::string_view wish) {
  // Longer than a short task on a GPU and its way back; and than what its caller takes to send the next one.
  constexpr LookTimes longer{.far = std::chrono::microseconds{400}, .message = std::chrono::microseconds{200}};
  constexpr LookTimes shorter{.far = std::chrono::microseconds{0}, .message = short_look};
  if (wish == "long")
    return longer;
  if (wish == "short")
    return shorter;
  return processors > 1 ? longer : shorter;
}

const LookTimes& look_times() {
  static const LookTimes times = [] {
    const char* wish = std::getenv("GPUACTORS_POLLING");
    return look_times(usable_cpus(), wish != nullptr ? wish : "");
  }();
  return times;
}

} // namespace gpuactors
