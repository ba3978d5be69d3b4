// Without the CUDA module there is no driver to show kernels to.
#include "device.hpp"

namespace llm::test {

void show_kernels_to_fake_driver() {
  // nop
}

} // namespace llm::test
