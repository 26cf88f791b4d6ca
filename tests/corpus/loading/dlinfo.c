// Handles asked about themselves: origin, link map, and a symbol's size.
//# Args: -D_GNU_SOURCE
//# Plugin: PLUGIN
//# Link: -ldl
//# Variants: pie no-pie pie+hash
//# Output: libPLUGIN.so size 40 origin
#ifdef PLUGIN
int numbers[10] = {1};
#else
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    void *plugin = dlopen("libPLUGIN.so", RTLD_LAZY);
    struct link_map *map = NULL;
    char origin[4096] = "";
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    if (!plugin || dlinfo(plugin, RTLD_DI_LINKMAP, &map) || dlinfo(plugin, RTLD_DI_ORIGIN, origin))
        return 1;
    if (!dladdr1(dlsym(plugin, "numbers"), &info, (void **)&symbol, RTLD_DL_SYMENT))
        return 2;
    printf("%s size %d %s\n", strrchr(map->l_name, '/') + 1, (int)symbol->st_size,
           strstr(map->l_name, origin) ? "origin" : "elsewhere");
    return 0;
}
#endif
