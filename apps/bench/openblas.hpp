// The functions of OpenBLAS, which the library loads and this program therefore does not link either.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace gpuactors::bench {

/// The function of that name and type; ends the program with the loader's words when there is none.
template <class Function>
Function* openblas(const char* name) {
  static void* const library = dlopen("libopenblas.so.0", RTLD_NOW);
  auto* found = library != nullptr ? dlsym(library, name) : nullptr;
  if (found == nullptr) {
    fmt::print(stderr, "gpuactors-bench: {}\n", dlerror());
    std::exit(1);
  }
  return reinterpret_cast<Function*>(found);
}

} // namespace gpuactors::bench
