#compdef ossia
# Completion of ossia's command lines in zsh: `ossia completion zsh` prints this.

_ossia() {
    local program=ossia more
    local -a found
    [[ $words[1] == */* ]] && program=${${(Q)words[1]}/#\~\//$HOME/}
    found=("${(@f)$($program completion zsh -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" </dev/null 2>/dev/null)}")
    more=$found[1]
    shift found
    (( $#found )) && _describe -V ossia found
    [[ $PREFIX == --*=* ]] && compset -P '*='
    case $more in
        files) _files ;;
        folders) _files -/ ;;
        models) _files -g '*.gguf(-.)' ;;
    esac
}

if [[ $funcstack[1] == _ossia ]]; then _ossia "$@"; else compdef _ossia ossia; fi
