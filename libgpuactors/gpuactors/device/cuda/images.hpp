// Kernels in the driver: each image is loaded once a process, each kernel looked up once.
#pragma once

#include <gpuactors/device/cuda/check.hpp>
#include <gpuactors/device/kernel.hpp>

#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace gpuactors::cuda {

/// Loaded images and their kernels. An image is never unloaded before the process ends. Any thread.
///
/// Unless CUDA_MODULE_LOADING says otherwise the driver loads a kernel's code at its first launch, which may wait for
/// all work of the device while other calls wait for it. So what is known is loaded where contexts are opened: the
/// images that shared libraries of the process have, and those that a kernel was launched from. A program's own image
/// is in no list that can be read: all its kernels are loaded at the first launch of one of them.
class Images {
public:
  explicit Images(const Driver& driver) : driver_(driver) {
    // nop
  }

  /// The driver's handle of `kernel`. The primary context is current.
  /// @returns `unsupported` when it has no code for CUDA, `launch_failed` when its image does not hold it.
  Result<CUkernel> find(const KernelInfo& kernel, int ordinal);

  /// Loads what is known for the primary context of device `ordinal`, which is current, unless it was done before. What
  /// cannot be loaded is an error of who launches it.
  void load_for_primary(int ordinal);

  /// The same for a new context, which is current: all that is known.
  /// @returns of how many images: of one that another thread loads just now there may be nothing yet.
  std::size_t load_for_new_context();

  /// How many images are known.
  std::size_t count();

  /// To be told when a device's primary context is retained: it may be another one than before, without code.
  void forget_primary(int ordinal);

private:
  /// One image; its first bytes are its name, for a program may have a copy of a library's `KernelImage`.
  struct Loaded {
    /// Held while the driver loads it.
    std::mutex mutex;
    CUlibrary library = nullptr;
    /// All that it has, where the driver tells.
    std::vector<CUkernel> kernels;
    /// Held while they are loaded into a primary context.
    std::mutex primary_mutex;
  };
  using Name = const unsigned char*;

  /// Puts the images of shared libraries that have come since the last time into `images_`.
  void look_around();
  Loaded& entry_of(const KernelImage& image);
  /// Everything in `images_` at the moment.
  std::vector<std::pair<KernelImage, Loaded*>> all();
  Result<CUlibrary> load(const KernelImage& image, Loaded& loaded, const char* what, int ordinal);
  /// @returns whether there was anything to load.
  bool load_into_current(Loaded& loaded) const;
  /// The same for the primary context of that device, unless it was done before: whoever comes meanwhile waits for it.
  void load_into_primary(Name image, Loaded& loaded, int ordinal);

  const Driver& driver_;
  /// Guards what follows; never held while the driver loads.
  std::mutex mutex_;
  /// Entries stay where they are.
  std::map<Name, std::pair<KernelImage, Loaded>> images_;
  std::map<std::tuple<Name, const char*, int>, CUkernel> kernels_;
  /// What the primary contexts have, by the device.
  std::set<std::pair<Name, int>> in_primary_;
  /// How many libraries the process had loaded, ever, when it was last looked around.
  unsigned long long libraries_seen_ = 0;
};

} // namespace gpuactors::cuda
