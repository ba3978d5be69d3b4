// What tests cannot expect of a program that a sanitizer watches.
#pragma once

namespace gpuactors::test {

/// Whether freed memory goes back to the system at once: AddressSanitizer keeps it for a while.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool frees_at_once = false;
#else
inline constexpr bool frees_at_once = true;
#endif

} // namespace gpuactors::test
