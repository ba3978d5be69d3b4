// Plugins that no node should take, one for each definition.
#ifdef OTHER_VERSION
#define GPUACTORS_OWN_PLUGIN_NOTE
#endif
#ifdef NO_PLUGIN
#include <csignal>
#else
#include <gpuactors/gpuactors.hpp>

#include <unistd.h>

#include <csignal>
#include <stdexcept>

using google::protobuf::Empty;
using gpuactors::TaskContext;
#endif

namespace {

/// What it does when it is loaded.
[[maybe_unused]] int load() {
#if defined(CRASH) || defined(OTHER_VERSION) || defined(NO_PLUGIN)
  ::raise(SIGSEGV); // the last two are never run
#elif defined(THROW)
  throw std::runtime_error{"the model is missing"};
#elif defined(LEAVE)
  ::_exit(0);
#endif
  return 0;
}

[[maybe_unused]] const int loaded = load();

} // namespace

#if defined(OTHER_VERSION)
GPUACTORS_PLUGIN_NOTE(.gpuactors = 9'007)
#elif defined(TAKEN)
GPUACTORS_TASK("echo", [](TaskContext&, const Empty& in) { return in; });
#elif defined(MISSING_SYMBOL)
void defined_nowhere();
GPUACTORS_TASK("missing", [](TaskContext&, const Empty& in) {
  defined_nowhere();
  return in;
});
#elif !defined(NO_PLUGIN) && !defined(NOTHING)
GPUACTORS_TASK("bad", [](TaskContext&, const Empty& in) { return in; });
#endif
