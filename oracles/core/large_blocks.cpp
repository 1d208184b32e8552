// Tensors of many megabytes come and go in every phase of a check, and each time the system would hand out their memory
// page by page: of a check of 8 million numbers a tensor on 16 cores that is a fifth of the time. Large blocks ask for
// large pages instead.
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

// Weak: a program may have operators of its own, as AddressSanitizer has.
#if !defined(__SANITIZE_ADDRESS__)
// NOLINTBEGIN(cppcoreguidelines-no-malloc): that is what operators new and delete are made of

[[gnu::weak]] void* operator new(std::size_t size) {
  constexpr std::size_t large_page = std::size_t{1} << 21, least = 2 * large_page;
  const std::size_t whole = std::max(size, (size + large_page - 1) / large_page * large_page);  // unless that overflows
  for (;;) {
    void* const block = size < least ? std::malloc(size == 0 ? 1 : size) : std::aligned_alloc(large_page, whole);
    if (block != nullptr) {
      if (size >= least) madvise(block, whole, MADV_HUGEPAGE);  // advice: where there are none, pages are small
      return block;
    }
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

[[gnu::weak]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::weak]] void operator delete(void* block, std::size_t) noexcept { std::free(block); }

// NOLINTEND(cppcoreguidelines-no-malloc)
#endif
