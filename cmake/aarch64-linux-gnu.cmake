# Debian's cross compiler for 64-bit ARM, and qemu-user to run what it builds. QEMU_CPU in the
# environment chooses the CPU, which has everything unless told otherwise.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

# The libraries that tools/cross_libraries unpacks; nothing of this machine's own.
get_filename_component(libraries ${CMAKE_CURRENT_LIST_DIR}/../.cache/arm64/usr ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${libraries} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
