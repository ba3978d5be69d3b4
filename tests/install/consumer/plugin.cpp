// A plugin of a project of a user's own.
#include "gauge.pb.h"

#include <gpuactors/gpuactors.hpp>

GPUACTORS_TASK("consumer.double", [](gpuactors::TaskContext&, const consumer::Gauge& in) {
  consumer::Gauge out;
  out.set_value(2 * in.value());
  return out;
});
