// Finding kernel images and loading them into the driver.
#include <gpuactors/device/cuda/images.hpp>

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpuactors::cuda {

namespace {

// -- what shared libraries show ------------------------------------------------------------------

/// What gpuactors_add_kernels() calls them.
constexpr std::string_view image_prefix = "gpuactors_image_";

/// The symbols that a library shows to others.
struct Symbols {
  const ElfW(Sym) * table = nullptr;
  const char* names = nullptr;
  std::size_t count = 0;
};

/// The number of symbols is only to be had from the table by which they are looked up: the last of its chains ends it.
std::size_t count_by_gnu_hash(const std::uint32_t* hash) {
  const auto buckets = hash[0];
  const auto first = hash[1];
  const auto words = hash[2] * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t));
  const auto* const bucket = hash + 4 + words;
  const auto* const chain = bucket + buckets;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < buckets; ++i)
    last = std::max(last, bucket[i]);
  if (last < first)
    return first;
  while ((chain[last - first] & 1U) == 0)
    ++last;
  return last + 1;
}

Symbols symbols_of(const dl_phdr_info& library) {
  Symbols symbols;
  const ElfW(Dyn)* entry = nullptr;
  for (int i = 0; i < library.dlpi_phnum; ++i)
    if (library.dlpi_phdr[i].p_type == PT_DYNAMIC)
      entry = reinterpret_cast<const ElfW(Dyn)*>(library.dlpi_addr + library.dlpi_phdr[i].p_vaddr);
  for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    // The loader has made addresses of most of them, but not in what the kernel itself has put there.
    const auto value = entry->d_un.d_ptr;
    const auto address = value < library.dlpi_addr ? library.dlpi_addr + value : value;
    if (entry->d_tag == DT_SYMTAB)
      symbols.table = reinterpret_cast<const ElfW(Sym)*>(address);
    else if (entry->d_tag == DT_STRTAB)
      symbols.names = reinterpret_cast<const char*>(address);
    else if (entry->d_tag == DT_GNU_HASH)
      symbols.count = count_by_gnu_hash(reinterpret_cast<const std::uint32_t*>(address));
    else if (entry->d_tag == DT_HASH && symbols.count == 0)
      symbols.count = reinterpret_cast<const std::uint32_t*>(address)[1];
  }
  return symbols.table != nullptr && symbols.names != nullptr ? symbols : Symbols{};
}

/// Whether the bytes are the library's own. Not so of a copy that a program has, nor in a library that another thread
/// is about to load.
bool is_inside(const dl_phdr_info& library, const KernelImage& image) {
  const auto begin = reinterpret_cast<ElfW(Addr)>(image.begin);
  const auto end = reinterpret_cast<ElfW(Addr)>(image.end);
  return begin < end && std::any_of(library.dlpi_phdr, library.dlpi_phdr + library.dlpi_phnum, [&](const auto& part) {
           const auto start = library.dlpi_addr + part.p_vaddr;
           return part.p_type == PT_LOAD && begin >= start && end <= start + part.p_memsz;
         });
}

struct Search {
  unsigned long long seen;
  std::vector<KernelImage> found;
};

int look_at(dl_phdr_info* library, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  // Nothing has come since.
  if (library->dlpi_adds == search.seen)
    return 1;
  const auto symbols = symbols_of(*library);
  for (std::size_t i = 0; i < symbols.count; ++i) {
    const auto& symbol = symbols.table[i];
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_size != sizeof(KernelImage)
        || !std::string_view{symbols.names + symbol.st_name}.starts_with(image_prefix))
      continue;
    const auto& image = *reinterpret_cast<const KernelImage*>(library->dlpi_addr + symbol.st_value);
    if (is_inside(*library, image))
      search.found.push_back(image);
  }
  return 0;
}

int count_libraries(dl_phdr_info* library, std::size_t, void* data) {
  *static_cast<unsigned long long*>(data) = library->dlpi_adds;
  return 1;
}

} // namespace

// -- loading -------------------------------------------------------------------------------------

Result<CUkernel> Images::find(const KernelInfo& kernel, int ordinal) {
  if (kernel.image == nullptr || kernel.image->size() == 0)
    return fail(Errc::unsupported, fmt::format("kernel {} has no code for CUDA: it was built without nvcc; build it "
                                               "where the CUDA Toolkit is installed",
                                               kernel.name));
  // With the device: the first launch on another one has to load it there, too.
  const std::tuple key{kernel.image->begin, kernel.name, ordinal};
  {
    const std::lock_guard guard{mutex_};
    if (const auto known = kernels_.find(key); known != kernels_.end())
      return known->second;
  }
  auto& loaded = entry_of(*kernel.image);
  GPUACTORS_LET(library, load(*kernel.image, loaded, kernel.name, ordinal));
  // One wait for all of an image instead of one for each.
  load_into_primary(kernel.image->begin, loaded, ordinal);
  const auto entry = fmt::format("gpuactors_kernel_{}", kernel.name);
  CUkernel handle = nullptr;
  GPUACTORS_TRY(check(driver_, driver_.library_get_kernel(&handle, library, entry.c_str()), "cuLibraryGetKernel",
                      {ordinal, Errc::launch_failed, "kernel " + entry}));
  const std::lock_guard guard{mutex_};
  kernels_.emplace(key, handle);
  return handle;
}

void Images::load_for_primary(int ordinal) {
  look_around();
  for (const auto& [image, loaded] : all())
    if (load(image, *loaded, "of a library", ordinal))
      load_into_primary(image.begin, *loaded, ordinal);
}

std::size_t Images::load_for_new_context() {
  std::size_t count = 0;
  for (const auto& [image, loaded] : all())
    count += load_into_current(*loaded) ? 1 : 0;
  return count;
}

std::size_t Images::count() {
  const std::lock_guard guard{mutex_};
  return images_.size();
}

void Images::forget_primary(int ordinal) {
  const std::lock_guard guard{mutex_};
  std::erase_if(in_primary_, [ordinal](const auto& known) { return known.second == ordinal; });
  std::erase_if(kernels_, [ordinal](const auto& known) { return std::get<int>(known.first) == ordinal; });
}

void Images::look_around() {
  Search search{0, {}};
  {
    const std::lock_guard guard{mutex_};
    search.seen = libraries_seen_;
  }
  unsigned long long libraries = 0;
  // Before it is looked at them: what comes in between is looked at twice.
  dl_iterate_phdr(&count_libraries, &libraries);
  dl_iterate_phdr(&look_at, &search);
  for (const auto& image : search.found)
    (void)entry_of(image);
  const std::lock_guard guard{mutex_};
  libraries_seen_ = libraries;
}

Images::Loaded& Images::entry_of(const KernelImage& image) {
  const std::lock_guard guard{mutex_};
  auto& [known, loaded] = images_[image.begin];
  known = image;
  return loaded;
}

std::vector<std::pair<KernelImage, Images::Loaded*>> Images::all() {
  const std::lock_guard guard{mutex_};
  std::vector<std::pair<KernelImage, Loaded*>> result;
  for (auto& [name, entry] : images_)
    result.emplace_back(entry.first, &entry.second);
  return result;
}

void Images::load_into_primary(Name image, Loaded& loaded, int ordinal) {
  const std::lock_guard one_by_one{loaded.primary_mutex};
  const std::pair known{image, ordinal};
  {
    const std::lock_guard guard{mutex_};
    if (in_primary_.contains(known))
      return;
  }
  load_into_current(loaded);
  const std::lock_guard guard{mutex_};
  in_primary_.insert(known);
}

Result<CUlibrary> Images::load(const KernelImage& image, Loaded& loaded, const char* what, int ordinal) {
  const std::lock_guard guard{loaded.mutex};
  if (loaded.library != nullptr)
    return loaded.library;
  CUlibrary library = nullptr;
  GPUACTORS_TRY(check(driver_,
                      driver_.library_load_data(&library, image.begin, nullptr, nullptr, 0, nullptr, nullptr, 0),
                      "cuLibraryLoadData",
                      {ordinal, Errc::launch_failed, fmt::format("image of kernel {}, {} B", what, image.size())}));
  loaded.library = library;
  // Drivers from before CUDA 12.4 do not tell: their kernels are loaded at their first launch.
  unsigned count = 0;
  if (driver_.library_get_kernel_count == nullptr || driver_.library_enumerate_kernels == nullptr
      || driver_.library_get_kernel_count(&count, library) != CUDA_SUCCESS)
    return library;
  loaded.kernels.resize(count);
  if (count > 0 && driver_.library_enumerate_kernels(loaded.kernels.data(), count, library) != CUDA_SUCCESS)
    loaded.kernels.clear();
  return library;
}

bool Images::load_into_current(Loaded& loaded) const {
  std::vector<CUkernel> kernels;
  {
    const std::lock_guard guard{loaded.mutex};
    kernels = loaded.kernels;
  }
  if (driver_.kernel_get_function == nullptr)
    return false;
  for (auto* kernel : kernels) {
    CUfunction function = nullptr;
    // It may be there in part only.
    if (driver_.kernel_get_function(&function, kernel) == CUDA_SUCCESS && driver_.func_load != nullptr)
      (void)driver_.func_load(function);
  }
  return !kernels.empty();
}

} // namespace gpuactors::cuda
