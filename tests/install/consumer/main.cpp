// Uses the installed library: its headers, its code, messages and a kernel of this program.
#include "reading.pb.h"
#include "triple.hpp"

#include <gpuactors/base/units.hpp>

#include <array>
#include <iostream>

int main() {
  consumer::Reading reading;
  reading.set_gpus(0.25);
  const auto share = gpuactors::Share::from_double(reading.gpus(), "gpus");
  if (!share || gpuactors::to_string(*share) != "0.25") {
    std::cerr << "a share of 0.25 is not 0.25\n";
    return 1;
  }
  std::array<float, 4> x{1.0F, 2.0F, 3.0F, 4.0F};
  const auto pack = gpuactors::pack_arguments(x.data());
  triple.info.host(0, x.size(), &pack);
  if (x != std::array<float, 4>{3.0F, 6.0F, 9.0F, 12.0F}) {
    std::cerr << "the kernel did not triple\n";
    return 1;
  }
  std::cout << "installed library works\n";
  return 0;
}
