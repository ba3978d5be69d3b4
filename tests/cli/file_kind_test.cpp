// Programs and shared libraries are told apart, so that --program and --plugin can be mixed up without harm.
#include <apps/cli/file_kind.hpp>
#include <support/catch.hpp>
#include <support/temporary_folder.hpp>

#include <elf.h>
#include <link.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace gpuactors;
using cli::FileKind;
using cli::kind_of;

namespace {

/// The files of one test.
struct Files : test::TemporaryFolder {
  [[nodiscard]] std::string write(const std::string& name, const std::string& content) const {
    std::ofstream{*this / name, std::ios::binary} << content;
    return at(name);
  }

  [[nodiscard]] std::string at(const std::string& name) const {
    return (*this / name).string();
  }
};

template <class Part>
std::string bytes_of(const Part& part) {
  return {reinterpret_cast<const char*>(&part), sizeof(part)};
}

/// What an ELF file has that says what it is.
struct Parts {
  ElfW(Half) type = ET_DYN;
  bool names_interpreter = false;
  /// The flags of its dynamic section; 0: they are left out.
  decltype(ElfW(Dyn){}.d_un.d_val) flags = 0;
};

std::string elf(const Parts& parts) {
  ElfW(Ehdr) head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = sizeof(void*) == sizeof(std::uint64_t) ? ELFCLASS64 : ELFCLASS32;
  head.e_type = parts.type;
  head.e_phoff = sizeof(head);
  head.e_phentsize = sizeof(ElfW(Phdr));
  head.e_phnum = 2;
  ElfW(Phdr) interpreter{};
  interpreter.p_type = parts.names_interpreter ? PT_INTERP : PT_NULL;
  ElfW(Phdr) dynamic{};
  dynamic.p_type = PT_DYNAMIC;
  dynamic.p_offset = sizeof(head) + 2 * sizeof(dynamic);
  dynamic.p_filesz = 2 * sizeof(ElfW(Dyn));
  ElfW(Dyn) flags{};
  flags.d_tag = parts.flags != 0 ? DT_FLAGS_1 : DT_DEBUG;
  flags.d_un.d_val = parts.flags;
  return bytes_of(head) + bytes_of(interpreter) + bytes_of(dynamic) + bytes_of(flags) + bytes_of(ElfW(Dyn){});
}

std::string why_not(const std::vector<std::string>& programs, const std::vector<std::string>& plugins) {
  const auto checked = cli::check_programs_and_plugins(programs, plugins);
  if (checked)
    return "";
  CHECK(checked.error().code() == Errc::invalid_argument);
  return checked.error().message();
}

} // namespace

TEST_CASE("programs are told from shared libraries as the loader does") {
  const Files files;
  CHECK(kind_of("/proc/self/exe") == FileKind::program);
  CHECK(kind_of(files.write("script", "#!/bin/sh\n")) == FileKind::program);
  CHECK(kind_of(files.write("fixed", elf({.type = ET_EXEC}))) == FileKind::program);
  CHECK(kind_of(files.write("movable", elf({.names_interpreter = true, .flags = DF_1_NOW | DF_1_PIE})))
        == FileKind::program);
  CHECK(kind_of(files.write("static", elf({.flags = DF_1_PIE}))) == FileKind::program);
  CHECK(kind_of(files.write("library", elf({}))) == FileKind::library);
  CHECK(kind_of(files.write("bound", elf({.flags = DF_1_NOW}))) == FileKind::library);
  // It can be loaded, and run: nothing is said against either.
  CHECK(kind_of(files.write("both", elf({.names_interpreter = true}))) == FileKind::other);
}

TEST_CASE("what is neither, is cut off or cannot be read is left to those who use it") {
  const Files files;
  CHECK(kind_of(files.at("none")) == FileKind::other);
  CHECK(kind_of(files.at("")) == FileKind::other);
  CHECK(kind_of(files.write("empty", "")) == FileKind::other);
  CHECK(kind_of(files.write("text", "no library at all\n")) == FileKind::other);
  CHECK(kind_of(files.write("object", elf({.type = ET_REL}))) == FileKind::other);
  CHECK(kind_of(files.write("cut", elf({}).substr(0, sizeof(ElfW(Ehdr)) + 8))) == FileKind::other);
  REQUIRE(::mkfifo(files.at("pipe").c_str(), 0600) == 0);
  CHECK(kind_of(files.at("pipe")) == FileKind::other);
}

TEST_CASE("a program that is named as a plugin, or the other way round, is refused with the option that is right") {
  const Files files;
  const auto program = files.write("mine", elf({.type = ET_EXEC}));
  const auto library = files.write("mine.so", elf({}));
  CHECK(why_not({program}, {library}).empty());
  CHECK(why_not({}, {files.at("none")}).empty());
  CHECK(why_not({}, {program})
        == "--plugin " + program + " is a program, not a shared library: use --program " + program);
  CHECK(why_not({program, library}, {})
        == "--program " + library + " is a shared library, not a program: use --plugin " + library);
}
