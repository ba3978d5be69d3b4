// Which events the streams of green contexts take: the driver's answer to each pairing, which nothing documents.
#include <fmt/format.h>
#include <gpu/lab.hpp>

namespace gpuactors::gpu {

namespace {

/// A green context over the smallest group of SMs, with a stream.
struct Green {
  Green(Lab& lab, CUdevice device) : driver(lab.driver) {
    context = make_green(driver, device, one_group(driver, device));
    must(driver.green_ctx_stream_create(&stream, context, CU_STREAM_NON_BLOCKING, 0));
  }
  Green(const Green&) = delete;
  Green& operator=(const Green&) = delete;
  ~Green() {
    (void)driver.stream_destroy(stream);
    (void)driver.green_ctx_destroy(context);
  }

  const cuda::Driver& driver;
  CUgreenCtx context = nullptr;
  CUstream stream = nullptr;
};

/// Makes an event in the context that is current. @returns what the driver answers when it is recorded there.
int record(const cuda::Driver& driver, CUstream stream) {
  CUevent event = nullptr;
  must(driver.event_create(&event, CU_EVENT_DISABLE_TIMING));
  const auto answer = driver.event_record(event, stream);
  (void)driver.stream_synchronize(stream);
  (void)driver.event_destroy(event);
  return static_cast<int>(answer);
}

} // namespace

void check_events(Lab& lab) {
  const auto& driver = lab.driver;
  if (driver.missing_for_green != nullptr || driver.ctx_from_green_ctx == nullptr)
    return lab.report.skip("events", "the driver has no green contexts");
  const BareContext bare{lab};
  const Green green{lab, bare.device()};
  CUstream primary_stream = nullptr;
  must(driver.stream_create(&primary_stream, CU_STREAM_NON_BLOCKING));
  const auto primary_on_primary = record(driver, primary_stream);
  const auto primary_on_green = record(driver, green.stream);
  CUcontext home = nullptr;
  must(driver.ctx_from_green_ctx(&home, green.context));
  must(driver.ctx_push_current(home));
  const auto green_on_green = record(driver, green.stream);
  const auto green_on_primary = record(driver, primary_stream);
  CUcontext popped = nullptr;
  must(driver.ctx_pop_current(&popped));
  (void)driver.stream_destroy(primary_stream);
  // The module takes whichever of the two works: one of them must.
  lab.report.judge("events", primary_on_primary == 0 && (primary_on_green == 0 || green_on_green == 0),
                   fmt::format("cuEventRecord answers {} for an event of the primary context on its stream, {} on a "
                               "green one; {} for an event of the green context on its stream, {} on a primary one",
                               primary_on_primary, primary_on_green, green_on_green, green_on_primary),
                   "0 on the primary context's stream, and for one of the two on a green stream",
                   {{"primary_on_primary", primary_on_primary},
                    {"primary_on_green", primary_on_green},
                    {"green_on_green", green_on_green},
                    {"green_on_primary", green_on_primary}});
}

} // namespace gpuactors::gpu
