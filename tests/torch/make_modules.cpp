// Writes TorchScript files for the test of the program: torch_make_modules FOLDER
#include "modules.hpp"

#include <cstdio>
#include <exception>
#include <fstream>

int main(int argc, char** argv) {
  if (argc != 2)
    return 2;
  try {
    for (const auto& name : torchtest::module_names()) {
      std::ofstream out{std::string{argv[1]} + "/" + name + ".pt", std::ios::binary};
      out << torchtest::module_file(name);
      if (!out.flush())
        return 1;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
