#include <gpuactors/base/descriptor.hpp>
#include <gpuactors/cluster/detail/plugin_file.hpp>

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace gpuactors::detail {

namespace {

// Bounds for untrusted numbers in the file, far above those of any real library.
constexpr std::size_t most_segments = 4096;
constexpr std::size_t most_note_bytes = 1U << 20;

/// An ELF file, read at offsets that the file itself names.
class Library {
public:
  static Result<Library> open(const std::string& name) {
    Descriptor file{::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (!file)
      return fail(errno == ENOENT ? Errc::not_found : Errc::invalid_argument, errno_text(errno));
    struct stat status {};
    if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
      return fail(Errc::invalid_argument, "it is no file");
    return Library{std::move(file)};
  }

  /// @returns whether all `bytes` could be read.
  bool read(void* to, std::size_t bytes, std::uint64_t offset) const {
    return ::pread(file_.get(), to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  }

private:
  explicit Library(Descriptor file) : file_(std::move(file)) {
    // nop
  }

  Descriptor file_;
};

std::size_t padded(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Adds the gpuactors notes of a segment to `notes`.
void read_segment(const std::vector<char>& segment, std::size_t alignment, std::vector<BuiltWith>& notes) {
  std::size_t at = 0;
  ElfW(Nhdr) head{};
  while (segment.size() - at >= sizeof(head)) {
    std::memcpy(&head, &segment[at], sizeof(head));
    at += sizeof(head);
    const auto name = at;
    const auto content = name + padded(head.n_namesz, alignment);
    const auto end = content + padded(head.n_descsz, alignment);
    if (content + head.n_descsz > segment.size())
      return;
    BuiltWith note;
    if (head.n_type == plugin_note_type && head.n_namesz == sizeof(plugin_note_name) && head.n_descsz == sizeof(note)
        && std::memcmp(&segment[name], plugin_note_name, sizeof(plugin_note_name)) == 0) {
      std::memcpy(&note, &segment[content], sizeof(note));
      notes.push_back(note);
    }
    at = std::min(end, segment.size());
  }
}

std::string in_words(const BuiltWith& versions) {
  const auto version = [](std::uint32_t number) { return fmt::format("{}.{}", number / 1000, number % 1000); };
  return fmt::format("gpuactors {}, Protobuf {} and CAF {}", version(versions.gpuactors), version(versions.protobuf),
                     version(versions.caf));
}

} // namespace

Result<std::vector<BuiltWith>> read_plugin_notes(const std::string& file) {
  GPUACTORS_LET(library, Library::open(file));
  ElfW(Ehdr) head{};
  constexpr auto word = sizeof(void*) == sizeof(std::uint64_t) ? ELFCLASS64 : ELFCLASS32;
  if (!library.read(&head, sizeof(head), 0) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
    return fail(Errc::invalid_argument, "it is no shared library");
  if (head.e_ident[EI_CLASS] != word || head.e_type != ET_DYN || head.e_phentsize != sizeof(ElfW(Phdr)))
    return fail(Errc::invalid_argument, "it is no shared library of this kind of machine");
  std::vector<BuiltWith> notes;
  for (std::size_t i = 0; i < std::min<std::size_t>(head.e_phnum, most_segments); ++i) {
    ElfW(Phdr) segment{};
    if (!library.read(&segment, sizeof(segment), head.e_phoff + i * sizeof(segment)))
      return fail(Errc::invalid_argument, "the file is cut off");
    if (segment.p_type != PT_NOTE || segment.p_filesz > most_note_bytes)
      continue;
    std::vector<char> bytes(segment.p_filesz);
    if (!library.read(bytes.data(), bytes.size(), segment.p_offset))
      return fail(Errc::invalid_argument, "the file is cut off");
    constexpr std::size_t wide = 8;
    read_segment(bytes, segment.p_align == wide ? wide : sizeof(std::uint32_t), notes);
  }
  return notes;
}

Result<void> check_plugin_file(const std::string& file) {
  GPUACTORS_LET(notes, read_plugin_notes(file));
  if (notes.empty())
    return fail(Errc::invalid_argument, "it is no plugin of gpuactors: none of its sources includes "
                                        "gpuactors/actor/registry.hpp, where tasks and actors are registered");
  const BuiltWith ours;
  const auto other = std::find_if(notes.begin(), notes.end(), [&](const auto& note) { return note != ours; });
  if (other != notes.end())
    return fail(Errc::invalid_argument,
                fmt::format("it was built with {}, this program with {}", in_words(*other), in_words(ours)));
  return {};
}

} // namespace gpuactors::detail
