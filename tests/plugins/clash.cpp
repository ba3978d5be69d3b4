// A plugin with a .proto file whose path, or whose message, another one has.
#ifdef CLASHING_MESSAGE
#include <plugintest/v1/message.pb.h>
using Clashing = plugintest::v1::Words;
#else
#include <plugintest/v1/words.pb.h>
using Clashing = plugintest::another::v1::Other;
#endif

#include <gpuactors/gpuactors.hpp>

GPUACTORS_TASK("clash", [](gpuactors::TaskContext&, const Clashing& in) { return in; });
