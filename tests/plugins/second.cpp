// Another plugin as it should be, to be loaded beside the first one.
#include <gpuactors/gpuactors.hpp>

#include <plugintest/v1/second.pb.h>

GPUACTORS_TASK("second.half", [](gpuactors::TaskContext&, const plugintest::second::v1::Number& in) {
  plugintest::second::v1::Number out;
  out.set_value(in.value() / 2);
  return out;
});
